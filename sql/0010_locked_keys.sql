-- 0010_locked_keys.sql - which keys an open transaction has locked, so that no question waits for them.
--
-- A transaction that has charged a key and does not end keeps its row locked. Others that charge the
-- key wait, and so do all keys in the same statement.
BEGIN;
SET LOCAL client_min_messages = warning;

-- Those of the keys that an open transaction has locked. If it has changed or locked a key's row, the
-- holder is its number. If it has inserted the row, the row cannot be seen before it commits, but it
-- cannot be inserted a second time either. So we try that, for all keys and then for halves of them,
-- and roll back.
DROP FUNCTION IF EXISTS weir.held(uuid[]), weir.held(uuid[], integer);
CREATE OR REPLACE FUNCTION weir.locked_keys(keys uuid[], most integer DEFAULT 64)
RETURNS TABLE (key uuid, holder text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = 1
AS $$
#variable_conflict use_column
DECLARE
    missing uuid[];
    firsts integer[] := '{1}'; -- of the parts that are yet to be tried: all, then halves
    lasts integer[];
    n integer := 1;            -- how many parts there are
    first integer;
    last integer;
    found integer := 0;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- nothing is kept of what is tried
    RETURN QUERY SELECT r.key, r.xmax::text
                   FROM weir.states r
                  WHERE r.key = ANY (keys) AND r.xmax <> '0'::xid
                    AND EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'transactionid'
                                   AND l.transactionid = r.xmax AND l.granted);
    SELECT array_agg(u.key ORDER BY u.key) INTO missing
      FROM unnest(keys) AS u (key)
     WHERE NOT EXISTS (SELECT FROM weir.states r WHERE r.key = u.key);
    IF missing IS NULL THEN
        RETURN;
    END IF;
    lasts[1] := cardinality(missing);
    WHILE n > 0 AND found < most LOOP
        first := firsts[n];
        last := lasts[n];
        n := n - 1;
        BEGIN
            INSERT INTO weir.states (key, at, used, other, oldest, expires, due)
            SELECT u.key, 0, 0, 0, 0, 0, 0 FROM unnest(missing[first:last]) AS u (key) ORDER BY 1
                ON CONFLICT DO NOTHING;
            RAISE EXCEPTION USING ERRCODE = 'WEIR0';
        EXCEPTION
            WHEN SQLSTATE 'WEIR0' THEN
                NULL; -- none of these is locked
            WHEN lock_not_available THEN
                IF first = last THEN
                    key := missing[first];
                    holder := 'has made it';
                    RETURN NEXT;
                    found := found + 1;
                ELSE
                    firsts[n + 1] := (first + last) / 2 + 1;
                    lasts[n + 1] := last;
                    firsts[n + 2] := first;
                    lasts[n + 2] := (first + last) / 2;
                    n := n + 2;
                END IF;
        END;
    END LOOP;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION weir.locked_keys(uuid[], integer) TO weir_server;
INSERT INTO weir.migrations (number, name) VALUES (10, 'locked_keys') ON CONFLICT DO NOTHING;
COMMIT;
