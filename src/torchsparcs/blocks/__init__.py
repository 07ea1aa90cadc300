"""Feed-forward blocks inside anybody's model: found by tracing a call, read and written."""

# The files that other rooms may use; the rest are this room's own.
__all__ = ["finding", "layers", "spectral"]
