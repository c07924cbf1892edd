-- Every object under (resource, namespace, name), as its JSON.
CREATE TABLE objects (
    resource  TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    revision  INTEGER NOT NULL,
    value     BLOB    NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID, STRICT;

-- The revision of the newest commit: one row, whose number only grows, whatever is deleted.
CREATE TABLE counter (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO counter (only, revision) VALUES (1, 1);
