-- 0013_reservations.sql - drops the functions of reservations. Their records are forgotten: what they
-- hold is used in full.
BEGIN;
SET LOCAL client_min_messages = warning;
DO $$
DECLARE
    made text;
BEGIN
    FOR made IN SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
                 WHERE p.pronamespace = to_regnamespace('weir')
                   AND p.proname IN ('give_back', 'settle_bucket', 'free_slots', 'judge_record',
                                     'bounds_of', 'is_denied', 'drop_expired', 'add_parts', 'settle_holds',
                                     'hold_until', 'stands', 'bring_up_leases', 'release_due', 'held_charges', 'judge_reservations') LOOP
        EXECUTE 'DROP FUNCTION ' || made;
    END LOOP;
    IF to_regclass('weir.holds') IS NOT NULL THEN
        UPDATE weir.states SET locked_until = NULL, other = 0, oldest = 0
         WHERE locked_until IN (0, -2);
        UPDATE weir.states SET locked_until = NULL WHERE locked_until = -1;
        TRUNCATE weir.holds, weir.reservations;
        TRUNCATE weir.releases;
    END IF;
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 13;
    END IF;
END $$;
COMMIT;
