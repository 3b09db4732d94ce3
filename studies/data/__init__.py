"""The data that the configs name: made from their authors' files, and compared with those that were used here."""
