"""Boxes around what moves, drawn into a window: python moving_boxes.py VIDEO."""

import sys

import cv2

LEAST_AREA = 60

capture = cv2.VideoCapture(sys.argv[1])
subtractor = cv2.createBackgroundSubtractorMOG2(history=200, varThreshold=25, detectShadows=True)
kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (3, 3))
boxes = []  # of each frame

while True:
    ok, frame = capture.read()
    if not ok:
        break
    mask = subtractor.apply(frame)
    _, mask = cv2.threshold(mask, 200, 255, cv2.THRESH_BINARY)  # shadows are 127
    mask = cv2.morphologyEx(mask, cv2.MORPH_OPEN, kernel)
    mask = cv2.dilate(mask, kernel, iterations=2)
    mask = cv2.erode(mask, kernel, iterations=2)
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    boxes.append([cv2.boundingRect(contour) for contour in contours if cv2.contourArea(contour) > LEAST_AREA])
    for x, y, width, height in boxes[-1]:
        cv2.rectangle(frame, (x, y), (x + width, y + height), (0, 255, 0), 2)
    cv2.imshow("boxes", frame)
    if cv2.waitKey(1) & 0xFF == ord("q"):
        break

capture.release()
cv2.destroyAllWindows()
print(f"{len(boxes)} frames, at most {max(map(len, boxes))} boxes")
