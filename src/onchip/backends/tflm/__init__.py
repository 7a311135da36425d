"""Arena plans of TFLite Micro."""
