-- 0014_reserve.sql - reservations by plain SQL, with a policy.
--
-- ERRORS are exceptions, beside those of 0003_policies.sql:
--   WR404  there is no such reservation: it was never made, or is long over
--   WR409  the reservation is settled already, with other amounts
--   WR410  the reservation has expired
--   WR422  this id was used for another question
BEGIN;
SET LOCAL client_min_messages = warning;

DO $$
BEGIN
    IF to_regtype('weir.reserved') IS NULL THEN
        CREATE TYPE weir.reserved AS (
            allowed        boolean,
            policy         text,
            rule           text,
            "limit"        bigint,
            remaining      bigint,
            retry_after_ms bigint,
            reset_after_ms bigint,
            delay_ms       bigint,
            source         text,
            rules          jsonb,
            reservation    text,    -- NULL: nothing is held
            expires_in_ms  bigint,
            repeated       boolean, -- it was done before
            expired        boolean, -- a commit: it came too late to give back
            over           bigint   -- a commit: by how much the fullest limit is exceeded
        );
    END IF;
END $$;

CREATE OR REPLACE FUNCTION weir.check_id(what text, id text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF id !~ '\A[A-Za-z0-9_.:/-]{1,64}\Z' THEN
        PERFORM weir.reject(what || ' must be 1 to 64 of a-z A-Z 0-9 _ . : / -');
    END IF;
    RETURN id;
END $$;

DROP FUNCTION IF EXISTS weir.check_ttl(bigint); -- without the policy's longest
CREATE OR REPLACE FUNCTION weir.check_ttl(ttl bigint, most bigint DEFAULT 86400000) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF ttl IS NULL THEN
        PERFORM weir.reject('p_ttl_ms is missing');
    ELSIF ttl NOT BETWEEN 1 AND most THEN
        PERFORM weir.reject(format('p_ttl_ms must be from 1 to %s%s', most,
            CASE WHEN most < 86400000 THEN ' here: the policy says max_ttl'
                 ELSE ', which is a day' END));
    END IF;
    RETURN ttl;
END $$;

-- The key of a record, as the engine of a server makes it.
CREATE OR REPLACE FUNCTION weir.reservation_key(id text) RETURNS uuid
LANGUAGE sql STABLE AS $$
    SELECT weir.key_of(s.bytes, '{reservations}', convert_to(id, 'UTF8')) FROM weir.secret s
$$;

-- What was refused, as an exception.
CREATE OR REPLACE FUNCTION weir.reject_reservation(error integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    CASE error
    WHEN 0 THEN
        RETURN;
    WHEN 11 THEN
        PERFORM weir.reject('the reservation does not count one of these amounts');
    WHEN 14 THEN
        RAISE EXCEPTION 'there is no such reservation: it was never made, or is long over'
            USING ERRCODE = 'WR404';
    WHEN 15 THEN
        RAISE EXCEPTION 'this id was used for another question: give each question an id of its own'
            USING ERRCODE = 'WR422';
    WHEN 16 THEN
        RAISE EXCEPTION 'the reservation is settled already, with other amounts'
            USING ERRCODE = 'WR409';
    WHEN 17 THEN
        RAISE EXCEPTION 'the reservation has expired' USING ERRCODE = 'WR410';
    ELSE
        PERFORM weir.reject('the time to live is longer than this reservation may have');
    END CASE;
END $$;

-- The names of costs that were used, and their amounts.
CREATE OR REPLACE FUNCTION weir.read_amounts(
    p_cost bigint, p_costs jsonb, OUT names text[], OUT amounts bigint[])
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    given CONSTANT jsonb := jsonb_strip_nulls(coalesce(p_costs, '{}'));
    counted CONSTANT jsonb := CASE WHEN jsonb_typeof(given) = 'object' THEN (
        SELECT jsonb_agg(jsonb_build_object('counts', k)) FROM jsonb_object_keys(given) AS k) END;
BEGIN
    PERFORM weir.costs_of( -- the names are those of the reservation, whatever they are
        jsonb_build_object('rules', coalesce(counted, '[]') || '[{"name": "requests"}]'), p_cost,
        given);
    SELECT array_agg(a.key), array_agg(a.value::bigint) INTO names, amounts
      FROM jsonb_each_text(given
          || CASE WHEN p_cost IS NULL THEN '{}' ELSE jsonb_build_object('requests', p_cost) END) AS a;
END $$;

-- Hold what a check would charge, or, if it is used at once, charge it. p_id makes it idempotent.
CREATE OR REPLACE FUNCTION weir.make_reservation(
    p_policy text, p_attributes jsonb, p_cost bigint, p_costs jsonb, p_ttl bigint, p_id text,
    p_plan text, p_key text, p_is_used boolean)
RETURNS weir.reserved LANGUAGE plpgsql AS $$
DECLARE
    secret CONSTANT bytea := (SELECT bytes FROM weir.secret);
    id CONSTANT text := coalesce(p_id, replace(gen_random_uuid()::text, '-', ''));
    prepared weir.prepared;
    said record;
    answer weir.answer;
    rule jsonb;
    numbers jsonb;
    names text[] := '{}';
    counted text[] := '{}';
    calendars text[] := '{}';
    fingerprint bigint;
    terms jsonb;
    most_ttl bigint;
    ttl bigint := 0;
BEGIN
    PERFORM weir.check_id('p_id', id);
    prepared := weir.prepare_policy(p_policy, p_attributes, p_key, p_cost, p_plan, 0, secret,
                                    p_costs);
    IF prepared.is_final THEN
        answer := prepared.answer;
        RETURN (answer.*, NULL, NULL, false, false, 0)::weir.reserved;
    END IF;
    terms := coalesce(prepared.document->'reserve', '{}');
    most_ttl := coalesce((terms->>'max_ttl_ms')::bigint, 86400000);
    IF NOT p_is_used THEN
        ttl := coalesce(p_ttl, (terms->>'ttl_ms')::bigint);
        IF ttl IS NULL THEN
            PERFORM weir.reject(format('p_ttl_ms is missing, and policy ''%s'' has no `reserve: '
                                       '{ttl: …}`', p_policy));
        END IF;
        ttl := weir.check_ttl(CASE WHEN p_ttl IS NULL THEN least(ttl, most_ttl) ELSE ttl END,
                              most_ttl);
    END IF;
    FOR i IN 1..cardinality(prepared.keys) LOOP
        rule := prepared.document->'rules'
                ->coalesce(array_position(prepared.charge_of, i),
                           array_position(prepared.shadow_of, i)) - 1;
        numbers := CASE WHEN array_position(prepared.charge_of, i) IS NULL
                        THEN rule->'shadow_limit'
                        ELSE coalesce(rule->'plans'->coalesce(p_plan, prepared.document->>'plan'),
                                      rule) END;
        names := names || (rule->>'name');
        counted := counted || coalesce(rule->>'counts', 'requests');
        calendars := calendars || CASE WHEN prepared.algorithms[i] = 33
            THEN format('%s %s %s', numbers->>'period', coalesce(numbers->>'month_day', '1'),
                        numbers->>'zone') END;
    END LOOP;
    -- Of what the caller has sent, so that a push of policies does not change it.
    fingerprint := ('x' || left(replace(weir.key_of(secret, '{"reservations by SQL"}', convert_to(
        jsonb_build_array(p_policy, p_attributes, p_cost, p_costs, p_plan, p_key, p_is_used)::text,
        'UTF8'))::text, '-', ''), 16))::bit(64)::bigint;
    SELECT * INTO said FROM weir.judge_reservations(
        ARRAY[CASE WHEN NOT p_is_used AND terms->>'on_expiry' = 'release' THEN 10 ELSE 6 END],
        ARRAY[weir.reservation_key(id)], ARRAY[fingerprint], ARRAY[ttl], ARRAY[most_ttl],
        ARRAY[p_is_used], NULL, '{0}', NULL, NULL,
        ARRAY[cardinality(prepared.keys)], prepared.keys, prepared.algorithms, prepared.limits,
        prepared.windows, prepared.bursts, prepared.precisions, prepared.blocks, prepared.bounds,
        calendars, prepared.costs, array_fill(p_policy, ARRAY[cardinality(names)]), names, counted,
        array_fill(false, ARRAY[prepared.live])
            || array_fill(true, ARRAY[cardinality(names) - prepared.live]));
    PERFORM weir.reject_reservation(said.errors[1]);
    IF said.repeated[1] THEN
        prepared.verb := 1; -- it is counted already
    END IF;
    answer := weir.conclude(prepared, secret, 0, said.allowed, said.remaining, said.retry_after,
                            said.reset_after, said.delay);
    RETURN (answer.*, CASE WHEN answer.allowed THEN id END,
            CASE WHEN answer.allowed THEN greatest(0, said.expires_in[1]) END, said.repeated[1],
            false, 0)::weir.reserved;
END $$;

-- One of the other verbs about a reservation; NULL is one of what was exempt or off.
CREATE OR REPLACE FUNCTION weir.change_reservation(
    p_verb integer, p_reservation text, p_cost bigint, p_costs jsonb, p_ttl bigint,
    p_is_release boolean)
RETURNS weir.reserved LANGUAGE plpgsql AS $$
DECLARE
    named record;
    said record;
    answer weir.reserved;
    b integer; -- the charge that decides
    row jsonb;
BEGIN
    named := weir.read_amounts(p_cost, p_costs);
    answer := ROW(true, NULL, NULL, 0, 0, 0, 0, 0, 'off', '[]', p_reservation, NULL, false, false,
                  0)::weir.reserved;
    IF p_reservation IS NULL THEN
        RETURN answer;
    END IF;
    PERFORM weir.check_id('p_reservation', p_reservation);
    SELECT * INTO said FROM weir.judge_reservations(ARRAY[p_verb],
        ARRAY[weir.reservation_key(p_reservation)], '{0}', ARRAY[p_ttl], '{0}', ARRAY[p_is_release],
        NULL, ARRAY[coalesce(cardinality(named.names), 0)], named.names, named.amounts, '{0}', NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    PERFORM weir.reject_reservation(said.errors[1]);
    answer.source := 'store';
    FOR i IN 1..said.charge_counts[1] LOOP
        row := jsonb_build_object(
            'rule', said.known_rules[i], 'limit', said.known_limits[i],
            'remaining', greatest(said.remaining[i], 0), 'retry_after_ms', said.retry_after[i],
            'reset_after_ms', said.reset_after[i], 'delay_ms', said.delay[i],
            'allowed', said.allowed[i], 'shadow', said.known_shadows[i],
            'shadow_denied', said.known_shadows[i] AND NOT said.allowed[i]);
        -- A shadow limit has no row of its own.
        CONTINUE WHEN answer.rules @> jsonb_build_array(jsonb_build_object('rule', row->'rule'));
        answer.rules := answer.rules || row;
        IF b IS NULL
           OR (CASE WHEN said.known_shadows[i] <> said.known_shadows[b] THEN said.known_shadows[b]
                    WHEN said.allowed[i] <> said.allowed[b] THEN said.allowed[b]
                    WHEN said.allowed[i] THEN said.remaining[i] < said.remaining[b]
                    ELSE said.retry_after[b] <> -1 AND (said.retry_after[i] = -1
                         OR said.retry_after[i] > said.retry_after[b]) END) THEN
            b := i;
        END IF;
    END LOOP;
    answer.allowed := said.allowed[b] OR said.known_shadows[b];
    answer.policy := said.known_policies[b];
    answer.rule := said.known_rules[b];
    answer."limit" := said.known_limits[b];
    answer.remaining := greatest(said.remaining[b], 0);
    answer.retry_after_ms := CASE WHEN answer.allowed THEN 0 ELSE said.retry_after[b] END;
    answer.reset_after_ms := said.reset_after[b];
    answer.expires_in_ms := CASE WHEN p_verb > 7 THEN said.expires_in[1] END;
    answer.repeated := said.repeated[1];
    answer.expired := said.expired[1];
    answer.over := said.over[1];
    RETURN answer;
END $$;

-- Check, and hold what it costs for p_ttl_ms, until it is known what was used. NULL: as long as the
-- policy says.
CREATE OR REPLACE FUNCTION weir.reserve(
    p_policy text, p_attributes jsonb DEFAULT '{}', p_costs jsonb DEFAULT NULL,
    p_ttl_ms bigint DEFAULT NULL, p_id text DEFAULT NULL, p_plan text DEFAULT NULL,
    p_key text DEFAULT NULL, p_cost bigint DEFAULT NULL)
RETURNS weir.reserved
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.make_reservation(p_policy, p_attributes, p_cost, p_costs, p_ttl_ms, p_id,
                                 p_plan, p_key, false)
$$;

-- A check that is charged once, however often it is asked with this id: a reservation and its commit
-- in one step.
CREATE OR REPLACE FUNCTION weir.check_once(
    p_id text, p_policy text, p_attributes jsonb DEFAULT '{}', p_costs jsonb DEFAULT NULL,
    p_plan text DEFAULT NULL, p_key text DEFAULT NULL, p_cost bigint DEFAULT NULL)
RETURNS weir.reserved
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.make_reservation(p_policy, p_attributes, p_cost, p_costs, 0,
                                 weir.check_id('p_id', coalesce(p_id, '')), p_plan, p_key, true)
$$;

-- Say what was really used. What is not named was used as it was reserved.
CREATE OR REPLACE FUNCTION weir.commit(
    p_reservation text, p_costs jsonb DEFAULT NULL, p_cost bigint DEFAULT NULL)
RETURNS weir.reserved
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.change_reservation(7, p_reservation, p_cost, p_costs, 0, false)
$$;

-- Nothing was used.
CREATE OR REPLACE FUNCTION weir.release(p_reservation text) RETURNS weir.reserved
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.change_reservation(7, p_reservation, NULL, NULL, 0, true)
$$;

-- A check of more, onto the same reservation.
CREATE OR REPLACE FUNCTION weir.grow(
    p_reservation text, p_costs jsonb DEFAULT NULL, p_cost bigint DEFAULT NULL)
RETURNS weir.reserved
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.change_reservation(8, p_reservation, p_cost, p_costs, 0, false)
$$;

-- It expires p_ttl_ms from now, if that is later.
CREATE OR REPLACE FUNCTION weir.extend(p_reservation text, p_ttl_ms bigint) RETURNS weir.reserved
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT weir.change_reservation(9, p_reservation, NULL, NULL, weir.check_ttl(p_ttl_ms), false)
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    weir.reserve(text, jsonb, jsonb, bigint, text, text, text, bigint),
    weir.check_once(text, text, jsonb, jsonb, text, text, bigint),
    weir.commit(text, jsonb, bigint), weir.release(text), weir.grow(text, jsonb, bigint),
    weir.extend(text, bigint)
    TO weir_caller;

COMMENT ON TABLE weir.holds IS 'What reservations hold of a key, and where it is counted.';
COMMENT ON TABLE weir.reservations IS 'The records of reservations, until 10 minutes after they expire.';
COMMENT ON TYPE weir.reserved IS 'The answer about a reservation.';
COMMENT ON FUNCTION weir.add_parts IS 'Note what a reservation has charged. Internal.';
COMMENT ON FUNCTION weir.bounds_of IS 'The windows of the calendar of a record. Internal.';
COMMENT ON FUNCTION weir.bring_up IS 'A bucket with holds at a later time. Internal.';
COMMENT ON FUNCTION weir.bring_up_leases IS 'A key with leases at a later time. Internal.';
COMMENT ON FUNCTION weir.end_leases IS 'Count leases that have expired as used. Internal.';
COMMENT ON FUNCTION weir.foresee IS 'When a key with leases has room again. Internal.';
COMMENT ON FUNCTION weir.leased_state IS 'The row of a key, and its leases. Internal.';
COMMENT ON FUNCTION weir.stands IS 'Is it a lease of a state that ages? Internal.';
COMMENT ON FUNCTION weir.take_plain IS 'A log, counter or bucket at a later time. Internal.';
COMMENT ON FUNCTION weir.with_lease IS 'A list with one more lease. Internal.';
COMMENT ON FUNCTION weir.change_reservation IS 'Settle, grow or extend a reservation. Internal.';
COMMENT ON FUNCTION weir.check_id IS 'Reject an invalid id. Internal.';
COMMENT ON FUNCTION weir.check_once IS
    'A check that is charged once, however often it is asked with this id. For weir_caller.';
COMMENT ON FUNCTION weir.check_ttl IS 'Reject an invalid time to live. Internal.';
COMMENT ON FUNCTION weir.commit IS
    'Say what was really used of a reservation; the rest is given back. For weir_caller.';
COMMENT ON FUNCTION weir.drop_expired IS 'Forget the holds of a reservation that has expired. Internal.';
COMMENT ON FUNCTION weir.extend IS 'Let a reservation expire later. For weir_caller.';
COMMENT ON FUNCTION weir.free_slots IS 'Free the slots of a reservation. Internal.';
COMMENT ON FUNCTION weir.give_back IS 'Take an amount out of where it was charged. Internal.';
COMMENT ON FUNCTION weir.grow IS 'A check of more, onto a reservation. For weir_caller.';
COMMENT ON FUNCTION weir.is_denied IS 'Is a charge denied that decides? Internal.';
COMMENT ON FUNCTION weir.judge_record IS 'Judge the charges of a record. Internal.';
COMMENT ON FUNCTION weir.judge_reservations IS
    'Answer many questions about reservations in one call. For weir_server.';
COMMENT ON FUNCTION weir.make_reservation IS 'Make a reservation. Internal.';
COMMENT ON FUNCTION weir.read_amounts IS 'The names and amounts of costs. Internal.';
COMMENT ON FUNCTION weir.reject_reservation IS 'Raise why nothing was done. Internal.';
COMMENT ON FUNCTION weir.held_charges IS 'What reservations hold. For weir_server.';
COMMENT ON FUNCTION weir.hold_until IS 'When a hold of a reservation ends by itself. Internal.';
COMMENT ON TABLE weir.releases IS 'When reservations expire whose holds are then given back.';
COMMENT ON FUNCTION weir.release_due IS
    'Give back what has expired of reservations that say so. For weir_server.';
COMMENT ON FUNCTION weir.release IS 'Nothing was used of a reservation. For weir_caller.';
COMMENT ON FUNCTION weir.reservation_key IS 'The key of a record. Internal.';
COMMENT ON FUNCTION weir.reserve IS
    'A check whose costs are held until it is known what was used. For weir_caller.';
COMMENT ON FUNCTION weir.settle_bucket IS 'Settle what is held of a bucket. Internal.';
COMMENT ON FUNCTION weir.settle_holds IS 'Settle what a reservation holds. Internal.';
COMMENT ON FUNCTION weir.taken IS 'The slots of a key at a later time. Internal.';
COMMENT ON FUNCTION weir.tidy_reservations IS 'Remove records that are not known any more. Internal.';

INSERT INTO weir.migrations (number, name) VALUES (14, 'reserve') ON CONFLICT DO NOTHING;
COMMIT;
