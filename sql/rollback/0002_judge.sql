-- 0002_judge.sql - drops weir.judge().
BEGIN;
SET LOCAL client_min_messages = warning;
DROP FUNCTION IF EXISTS
    weir.judge(uuid[], integer[], bigint[], bigint[], bigint[], bigint[], integer[], integer[],
               integer[], integer[], bigint[], bigint[], bigint[], bigint[], bigint),
    weir.bring_up(uuid, bigint, bigint, bigint, bigint, bigint, bigint),
    weir.taken(uuid, bigint, bigint, bigint, bigint),
    weir.take_cell(bigint, bigint, bigint, bigint, bigint, bigint, bigint, boolean),
    weir.foresee(integer, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint,
                 bigint, bigint[], bigint[]),
    weir.end_leases(uuid, integer, bigint, bigint, bigint, bigint, boolean, bigint, bigint, bigint,
                    bigint, bigint, bigint[], bigint[]),
    weir.take_plain(integer, bigint, bigint, bigint, bigint, bigint, bigint, boolean, bigint,
                    bigint, bigint, bigint, bigint[]),
    weir.with_lease(bigint[], bigint, bigint),
    weir.leased_state(uuid),
    weir.guard(uuid);
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 2;
    END IF;
END $$;
COMMIT;
