"""Writes a trained run as a folder that answers texts without lwt and JAX."""
