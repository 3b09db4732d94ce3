"""Workers that measure lwt."""
