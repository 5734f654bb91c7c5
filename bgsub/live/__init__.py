"""Live video beyond one window: a test camera, Motion JPEG over HTTP, a virtual camera."""
