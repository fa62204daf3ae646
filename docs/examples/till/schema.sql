-- At headquarters, in PostgreSQL. The tills get it from there.
CREATE TABLE item(
  name text PRIMARY KEY,
  price numeric(10, 2) NOT NULL,
  -- What is on the shelf, all tills together.
  stock integer NOT NULL
);
-- The server logs each row as it was before a change. So the stock of two tills can be summed, and an item that was
-- deleted while a till sold it can come back.
ALTER TABLE item REPLICA IDENTITY FULL;
CREATE TABLE sale(
  -- Drawn by the till: no two of them draw the same.
  id uuid PRIMARY KEY,
  till text NOT NULL,
  item text NOT NULL REFERENCES item,
  pieces integer NOT NULL CHECK (pieces > 0)
);
INSERT INTO item VALUES ('bread', 2.20, 100000), ('milk', 1.15, 100000), ('tea', 3.50, 100000);
