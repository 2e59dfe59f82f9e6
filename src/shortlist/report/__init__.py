"""Pages that show what was measured, each one self-contained HTML file."""
