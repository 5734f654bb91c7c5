"""How many objects cross a line down the middle of the picture: python line_counter.py VIDEO."""

import sys

import cv2

LEAST_AREA, REACH = 60, 25

capture = cv2.VideoCapture(sys.argv[1])
line = int(capture.get(cv2.CAP_PROP_FRAME_WIDTH)) // 2
subtractor = cv2.createBackgroundSubtractorMOG2(500, 16, False)
subtractor.setHistory(300)
subtractor.setVarThreshold(1.5 * subtractor.getVarThreshold())
if not subtractor.getDetectShadows():
    subtractor.setShadowValue(0)
mask = None
tracks = []  # where each object in view was last
to_the_right = to_the_left = 0


def centres(mask):
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    for contour in contours:
        if cv2.contourArea(contour) > LEAST_AREA:
            moments = cv2.moments(contour)
            yield moments["m10"] / moments["m00"], moments["m01"] / moments["m00"]


while capture.isOpened():
    ok, frame = capture.read()
    if not ok:
        break
    mask = subtractor.apply(frame, mask, learningRate=-1)
    cleaned = cv2.medianBlur(mask, 5)
    found = []
    for x, y in centres(cleaned):
        near = [(old_x, old_y) for old_x, old_y in tracks if abs(old_x - x) + abs(old_y - y) < REACH]
        if near:
            before, _ = near[0]
            to_the_right += before < line <= x
            to_the_left += x < line <= before
        found.append((x, y))
    tracks = found
    cv2.line(frame, (line, 0), (line, frame.shape[0]), (0, 0, 255), 1)
    cv2.putText(frame, f"{to_the_right} {to_the_left}", (4, 12), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (255, 255, 255))
    cv2.imshow("count", frame)
    cv2.waitKey(1)

capture.release()
cv2.destroyAllWindows()
print(to_the_right, "to the right,", to_the_left, "to the left")
