"""What leaves: network files, a network with its preprocessing as one module, ONNX and others."""
