"""One scene before a camera: background, segmentation, light, camera movements, standing objects."""
