"""The quality of small translators and classifiers with each attention."""
