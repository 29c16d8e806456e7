"""`envcheck lint`: what a launch script or a training's configuration will do other than meant, line by line."""
