-- 0007_charge.sql - drops the fast path.
BEGIN;
SET LOCAL client_min_messages = warning;
DROP FUNCTION IF EXISTS
    weir.charge_one(uuid, integer, bigint, bigint, bigint, bigint, bigint, bigint),
    weir.charge_many(uuid[], integer, integer[], bigint[], bigint[], bigint[], bigint[], integer[],
                     bigint[], bigint[], integer[], bigint[]),
    weir.fresh(integer, bigint, bigint, bigint, bigint, bigint, bigint, bigint),
    weir.may_pass(integer, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint,
                  bigint, bigint[]),
    weir.next_at(integer, bigint, bigint, bigint, bigint, bigint, bigint),
    weir.next_used(integer, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint,
                   bigint[]),
    weir.next_other(integer, bigint, bigint, bigint, bigint, bigint, bigint, bigint),
    weir.next_oldest(integer, bigint, bigint, bigint, bigint, bigint, bigint, bigint[]),
    weir.next_log(integer, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint[]),
    weir.next_expires(integer, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint),
    weir.live(bigint, bigint, bigint, bigint, bigint, bigint[]),
    weir.log_gone(bigint[], bigint),
    weir.log_left(bigint[], bigint),
    weir.bucket(bigint, bigint),
    weir.due(bigint, bigint, bigint),
    weir.drained(bigint, bigint, bigint, bigint);
DO $$
BEGIN
    IF to_regclass('weir.migrations') IS NOT NULL THEN
        DELETE FROM weir.migrations WHERE number >= 7;
    END IF;
END $$;
COMMIT;
