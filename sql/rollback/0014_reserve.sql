-- 0014_reserve.sql - drops the functions for SQL callers.
BEGIN;
SET LOCAL client_min_messages = warning;
DO $$
DECLARE
    made text;
BEGIN
    FOR made IN SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
                 WHERE p.pronamespace = to_regnamespace('weir')
                   AND p.proname IN ('reserve', 'check_once', 'commit', 'release', 'grow', 'extend',
                                     'make_reservation', 'change_reservation', 'read_amounts',
                                     'reject_reservation', 'reservation_key', 'check_id',
                                     'check_ttl') LOOP
        EXECUTE 'DROP FUNCTION ' || made;
    END LOOP;
    DROP TYPE IF EXISTS weir.reserved;
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 14;
    END IF;
END $$;
COMMIT;
