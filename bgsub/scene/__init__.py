"""One scene: background, segmentation, light, camera movement and standing objects."""
