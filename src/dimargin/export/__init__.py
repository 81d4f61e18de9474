"""Models for other runtimes: ONNX graphs, C source, and machines with fewer support vectors."""
