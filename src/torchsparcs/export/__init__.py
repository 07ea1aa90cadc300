"""What leaves: network files, a network with its preprocessing as one module, ONNX and others."""

# The files that other rooms may use; the rest are this room's own.
__all__ = ["deployment", "formats", "saving", "writing"]
