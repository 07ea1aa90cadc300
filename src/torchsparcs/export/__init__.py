"""What leaves: network files, networks with their preprocessing, ONNX, source code and others."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "code",
    "deployment",
    "folding",
    "formats",
    "measuring",
    "predicting",
    "quantization",
    "saving",
    "timing",
    "writing",
]
