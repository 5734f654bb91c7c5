"""The scene without what moves in it, and what differs from it: python empty_scene.py VIDEO PICTURE."""

import sys

import cv2

capture = cv2.VideoCapture(sys.argv[1])
subtractor = cv2.createBackgroundSubtractorMOG2(detectShadows=False, history=400)
differences = []  # of each frame: where it is unlike the background

while True:
    ok, frame = capture.read()
    if not ok:
        break
    subtractor.apply(image=frame, learningRate=-1)
    background = subtractor.getBackgroundImage()
    difference = cv2.cvtColor(cv2.absdiff(frame, background), cv2.COLOR_BGR2GRAY)
    _, difference = cv2.threshold(difference, 30, 255, cv2.THRESH_BINARY)
    differences.append(difference)
    cv2.imshow("difference", difference)
    if cv2.waitKey(30) == 27:
        break

capture.release()
cv2.destroyAllWindows()
cv2.imwrite(sys.argv[2], background)
