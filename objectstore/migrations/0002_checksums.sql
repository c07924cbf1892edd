-- A checksum for each object, of its value, place and revision. Those that are there get theirs when the file is opened.
ALTER TABLE objects ADD COLUMN checksum INTEGER;
