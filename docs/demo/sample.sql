-- A small harbour: its ships, berths, visits, cargo, crew, tariffs and log.
-- About 2,000 rows, the same on every load (nothing here is random).
--
--     sqlite3 harbour.db < sample.sql
--
-- The schema is deliberately varied, so that a copy of it proves something.
-- It has composite keys, a table without any key, a key that is NULL, WITHOUT
-- ROWID, cascades and generated columns. It also has partial and expression
-- indexes, a view, a trigger, blobs, non-ASCII text and a full-text index.

PRAGMA foreign_keys = ON;
BEGIN;

CREATE TABLE operator (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    name    TEXT NOT NULL COLLATE NOCASE UNIQUE,
    country TEXT NOT NULL DEFAULT 'NO' CHECK (length(country) = 2),
    since   DATE
);

CREATE TABLE ship (
    id          INTEGER PRIMARY KEY,
    call_sign   TEXT NOT NULL UNIQUE,
    name        TEXT NOT NULL COLLATE NOCASE,
    operator_id INTEGER REFERENCES operator(id) ON DELETE SET NULL ON UPDATE CASCADE,
    class       TEXT NOT NULL CHECK (class IN ('ferry', 'tanker', 'bulk', 'trawler', 'yacht')),
    length_m    REAL NOT NULL CHECK (length_m > 0),
    beam_m      REAL NOT NULL CHECK (beam_m > 0),
    active      BOOLEAN NOT NULL DEFAULT 1,
    registered  DATETIME,
    flag        BLOB,
    deck_m2     REAL GENERATED ALWAYS AS (round(length_m * beam_m * 0.78, 1)) VIRTUAL,
    label       TEXT GENERATED ALWAYS AS (call_sign || ' ' || name) STORED
);

CREATE TABLE berth (
    quay    TEXT NOT NULL,
    number  INTEGER NOT NULL CHECK (number > 0),
    depth_m DECIMAL(4,1) NOT NULL,
    power   BOOLEAN NOT NULL DEFAULT 0,
    note    TEXT,
    PRIMARY KEY (quay, number)
) WITHOUT ROWID;

CREATE TABLE visit (
    id           INTEGER PRIMARY KEY,
    ship_id      INTEGER NOT NULL REFERENCES ship(id) ON DELETE CASCADE ON UPDATE CASCADE,
    quay         TEXT,
    berth_number INTEGER,
    arrived      DATETIME NOT NULL,
    departed     DATETIME CHECK (departed IS NULL OR departed >= arrived),
    tonnes_total DECIMAL(10,2) NOT NULL DEFAULT 0,
    FOREIGN KEY (quay, berth_number) REFERENCES berth(quay, number)
        ON DELETE SET NULL ON UPDATE CASCADE
);
-- A berth holds one ship at a time.
CREATE UNIQUE INDEX visit_open_berth ON visit(quay, berth_number) WHERE departed IS NULL;
CREATE INDEX visit_by_ship ON visit(ship_id, arrived DESC);

CREATE TABLE cargo (
    visit_id  INTEGER NOT NULL REFERENCES visit(id) ON DELETE CASCADE ON UPDATE CASCADE,
    line      INTEGER NOT NULL,
    goods     TEXT NOT NULL,
    tonnes    DECIMAL(10,2) NOT NULL CHECK (tonnes >= 0),
    hazardous BOOLEAN NOT NULL DEFAULT 0,
    seal      BLOB,
    PRIMARY KEY (visit_id, line)
);

CREATE TRIGGER cargo_adds_to_visit AFTER INSERT ON cargo BEGIN
    UPDATE visit SET tonnes_total = round(tonnes_total + new.tonnes, 2) WHERE id = new.visit_id;
END;

CREATE TABLE crew (
    id        INTEGER PRIMARY KEY,
    badge     TEXT NOT NULL UNIQUE,
    ship_id   INTEGER REFERENCES ship(id) ON DELETE CASCADE ON UPDATE CASCADE,
    mentor_id INTEGER REFERENCES crew(id) ON DELETE SET NULL ON UPDATE CASCADE,
    name      TEXT NOT NULL,
    rank      TEXT NOT NULL DEFAULT 'deckhand',
    born      DATE,
    UNIQUE (ship_id, name)
);

-- SQLite allows NULL in a key that is not INTEGER PRIMARY KEY; one buoy has none.
CREATE TABLE buoy (
    code   TEXT PRIMARY KEY,
    colour TEXT NOT NULL,
    lat    REAL NOT NULL,
    lon    REAL NOT NULL,
    lit    BOOLEAN NOT NULL DEFAULT 1
);

CREATE TABLE tariff (
    class      TEXT NOT NULL,
    valid_from DATE NOT NULL,
    per_metre  DECIMAL(8,2) NOT NULL,
    vat        DECIMAL(8,2) GENERATED ALWAYS AS (round(per_metre * 0.25, 2)) STORED,
    PRIMARY KEY (class, valid_from DESC)
) WITHOUT ROWID;

CREATE TABLE log_entry (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    author   TEXT,
    visit_id INTEGER REFERENCES visit(id) ON DELETE SET NULL ON UPDATE CASCADE,
    body     TEXT NOT NULL
);
CREATE INDEX log_by_author ON log_entry(lower(author), at) WHERE author IS NOT NULL;
CREATE INDEX log_by_day ON log_entry(substr(at, 1, 10));

-- No key at all: a gauge that repeats itself leaves equal rows.
CREATE TABLE tide (
    station TEXT,
    at      DATETIME,
    level_m REAL
);
CREATE INDEX tide_by_time ON tide(at);

CREATE VIEW in_port AS
    SELECT s.name, s.class, v.quay, v.berth_number, v.arrived, v.tonnes_total
    FROM visit v JOIN ship s ON s.id = v.ship_id
    WHERE v.departed IS NULL;

CREATE VIRTUAL TABLE log_search USING fts5(author, body);

------------------------------------------------------------------------- rows

INSERT INTO operator(name, country, since) VALUES
    ('Nordkyst Ferger', 'NO', '1962-05-01'), ('Ægir Shipping', 'IS', '1988-11-12'),
    ('Compañía del Faro', 'ES', '1974-02-28'), ('Żegluga Bałtyk', 'PL', NULL),
    ('Ναυσικά Lines', 'GR', '2001-07-19'), ('港の星海運', 'JP', '1955-01-04'),
    ('O''Malley & Daughters', 'IE', '1999-09-09'), ('Hafen "Süd" GmbH', 'DE', '2010-03-31'),
    ('Île Bleue', 'FR', '1983-06-15'), ('Lighter & Tug Co', 'GB', ''),
    ('Saaristo Oy', 'FI', '2015-12-01'), ('Бриз', 'BG', '1991-10-10');

INSERT INTO ship(id, call_sign, name, operator_id, class, length_m, beam_m, active, registered, flag)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
SELECT i,
       printf('H%c%c%03d', 65 + i % 26, 65 + i * 7 % 26, i),
       CASE i % 8 WHEN 0 THEN 'Havørn' WHEN 1 THEN 'Gaviota' WHEN 2 THEN 'Seeschwalbe'
                  WHEN 3 THEN 'Mouette' WHEN 4 THEN 'Kormorán' WHEN 5 THEN '海鳥'
                  WHEN 6 THEN 'Чайка' ELSE 'Guillemot' END
           || CASE WHEN i < 9 THEN '' ELSE ' ' || (i / 8 + 1) END,
       CASE WHEN i % 11 = 0 THEN NULL ELSE i * 5 % 12 + 1 END,
       CASE i % 5 WHEN 0 THEN 'ferry' WHEN 1 THEN 'tanker' WHEN 2 THEN 'bulk'
                  WHEN 3 THEN 'trawler' ELSE 'yacht' END,
       12.5 + i * 37 % 180,
       4.0 + i * 13 % 240 / 10.0,
       i % 9 <> 0,
       CASE WHEN i % 13 = 0 THEN NULL
            ELSE datetime('1990-01-01', '+' || (i * 97 % 12000) || ' days', '+' || i || ' minutes') END,
       CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN x'' WHEN 2 THEN x'00ff00fe'
                  ELSE CAST(printf('flag-%d', i) AS BLOB) END
FROM n;

INSERT INTO berth(quay, number, depth_m, power, note)
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 29)
SELECT CASE i / 6 WHEN 0 THEN 'North' WHEN 1 THEN 'South' WHEN 2 THEN 'Østkai'
                  WHEN 3 THEN 'Mole' ELSE '第三埠頭' END,
       i % 6 + 1, 4.5 + i * 7 % 40 / 2.0, i % 3 = 0,
       CASE WHEN i % 7 = 0 THEN 'crane ' || i WHEN i % 7 = 3 THEN '' END
FROM n;

INSERT INTO visit(id, ship_id, quay, berth_number, arrived, departed)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 420)
SELECT i, i * 31 % 120 + 1,
       CASE i % 5 WHEN 0 THEN 'North' WHEN 1 THEN 'South' WHEN 2 THEN 'Østkai'
                  WHEN 3 THEN 'Mole' ELSE '第三埠頭' END,
       i / 5 % 6 + 1,
       datetime('2024-03-01 04:20:00', '+' || (i * 9) || ' hours'),
       -- The last ones are still here, each at a berth of its own.
       CASE WHEN i <= 400
            THEN datetime('2024-03-01 04:20:00', '+' || (i * 9 + 3 + i % 40) || ' hours') END
FROM n;

INSERT INTO cargo(visit_id, line, goods, tonnes, hazardous, seal)
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 659)
SELECT i % 330 + 1, i / 330 + 1,
       CASE i % 7 WHEN 0 THEN 'timber' WHEN 1 THEN 'salt' WHEN 2 THEN 'klippfisk'
                  WHEN 3 THEN 'crude' WHEN 4 THEN 'café' WHEN 5 THEN 'ammonia' ELSE 'cars' END,
       round((i * 7919 % 90001) / 100.0, 2), i % 7 IN (3, 5),
       CASE i % 3 WHEN 0 THEN NULL ELSE CAST(printf('%08x', i * 2654435) AS BLOB) END
FROM n;

INSERT INTO crew(id, badge, ship_id, mentor_id, name, rank, born)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 240)
SELECT i, printf('B-%04d', i * 37), i % 120 + 1,
       CASE WHEN i > 12 THEN i % 12 + 1 END,
       CASE i % 6 WHEN 0 THEN 'Åse' WHEN 1 THEN 'Tomás' WHEN 2 THEN 'Zoë' WHEN 3 THEN 'Liam'
                  WHEN 4 THEN 'Олена' ELSE '美咲' END || ' ' || i,
       CASE WHEN i <= 12 THEN 'master' WHEN i % 4 = 0 THEN 'mate' WHEN i % 4 = 1 THEN 'engineer'
            ELSE 'deckhand' END,
       CASE WHEN i % 10 = 0 THEN NULL ELSE date('1958-01-01', '+' || (i * 53 % 15000) || ' days') END
FROM n;

INSERT INTO buoy(code, colour, lat, lon, lit)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 24)
SELECT printf('%s%02d', CASE WHEN i % 2 THEN 'G' ELSE 'R' END, i),
       CASE WHEN i % 2 THEN 'green' ELSE 'red' END,
       59.8 + i / 128.0, 10.5 - i / 64.0, i % 5 <> 0
FROM n;
INSERT INTO buoy VALUES (NULL, 'yellow', 59.75, 10.25, 0), ('', 'white', -0.5, 0.0, 1);

INSERT INTO tariff(class, valid_from, per_metre)
WITH RECURSIVE c(class, k) AS (VALUES ('ferry', 1), ('tanker', 2), ('bulk', 3), ('trawler', 4), ('yacht', 5)),
               n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 5)
SELECT class, date('2019-01-01', '+' || i || ' years'), round(3.15 * k + i * 0.85, 2) FROM c, n;

INSERT INTO log_entry(at, author, visit_id, body)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 260)
SELECT datetime('2024-03-01', '+' || (i * 14) || ' hours', '+' || (i * 17 % 60) || ' minutes'),
       CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN 'Pilot' WHEN 2 THEN 'Watch' WHEN 3 THEN 'Søren'
                  ELSE 'harbour master' END,
       CASE WHEN i % 3 = 0 THEN i + 40 END,
       CASE i % 6 WHEN 0 THEN 'Fog, visibility ' || (i % 9 * 100) || ' m; "slow ahead" ordered'
                  WHEN 1 THEN 'Wind ' || (i % 40) || ' kn from the south-west'
                  WHEN 2 THEN 'Lock gate didn''t close; diver sent'
                  WHEN 3 THEN 'Ship ' || i || ' moored, lines doubled ⚓'
                  WHEN 4 THEN 'Eisgang' || char(10) || 'second line of the entry'
                  ELSE 'Routine round, nothing to report' END
FROM n;

INSERT INTO log_search(rowid, author, body) SELECT id, author, body FROM log_entry;

INSERT INTO tide(station, at, level_m)
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 219)
SELECT CASE i % 3 WHEN 0 THEN 'Mole' WHEN 1 THEN 'Østkai' END,
       datetime('2024-06-01', '+' || (i / 4 * 6) || ' hours'),
       -- A dozen heights that come back, so that some rows are equal in full.
       CASE WHEN i % 17 = 0 THEN NULL ELSE (i / 4 % 12 - 6) * 0.35 END
FROM n;
INSERT INTO tide SELECT * FROM tide WHERE rowid <= 20;

COMMIT;
