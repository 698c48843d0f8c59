-- 0010_held.sql - which keys somebody holds, so that nobody has to wait to find out.
--
-- A transaction that has asked and does not end keeps others from the rows it has charged, and those
-- who ask for other keys in the same statement wait with them.
BEGIN;
SET LOCAL client_min_messages = warning;

-- Those of the keys whose rows a transaction that goes on has changed or locked, and its number.
CREATE OR REPLACE FUNCTION weir.held(keys uuid[]) RETURNS TABLE (key uuid, holder text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT r.key, r.xmax::text
      FROM weir.states r
     WHERE r.key = ANY (keys) AND r.xmax <> '0'::xid
       AND EXISTS (SELECT FROM pg_locks l
                    WHERE l.locktype = 'transactionid' AND l.transactionid = r.xmax AND l.granted)
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION weir.held(uuid[]) TO weir_server;
INSERT INTO weir.migrations (number, name) VALUES (10, 'held') ON CONFLICT DO NOTHING;
COMMIT;
