-- 0005_compatible.sql - drop-in versions of rate limit functions that many projects have written
-- themselves: same names, parameters and result columns, but exact under concurrency.
--
-- PostgREST returns an object for a function that returns one row, and an array for a set. So
-- weir.check_rate_limit() returns a set (its callers take the first row); the others return a row.
--
-- They are in schema weir. SELECT weir.expose('public') makes them callable in public too, which is
-- where PostgREST and supabase-js look.
BEGIN;
SET LOCAL client_min_messages = warning;

DO $$
BEGIN
    IF to_regtype('weir.request_count') IS NULL THEN
        CREATE TYPE weir.request_count AS (requests_count integer);
        CREATE TYPE weir.daily_count AS (count integer, allowed boolean);
    END IF;
    -- CREATE OR REPLACE cannot change a function from a set to a row.
    IF (SELECT proretset FROM pg_catalog.pg_proc
         WHERE oid = to_regprocedure('weir.increment_rate_limit(text, integer, date)')) THEN
        DROP FUNCTION weir.increment_rate_limit(text, integer, date);
    END IF;
    DROP FUNCTION IF EXISTS weir.upsert_rate_limit(text, text, timestamptz, timestamptz);
END $$;

-- At most p_limit in any p_window_seconds. A denied request is not counted. retry_after is in
-- seconds, rounded up. If the limit was lowered, the count is reported as at most the limit.
CREATE OR REPLACE FUNCTION weir.check_rate_limit(
    p_key text, p_limit integer, p_window_seconds integer)
RETURNS TABLE (allowed boolean, current_count integer, retry_after integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer weir.answer := weir.ask_limit('check_rate_limit',
        weir.sized('the key', coalesce(p_key, '')), p_limit, p_window_seconds * 1000::bigint,
        'sliding_window', 1, NULL, NULL, 0, NULL);
BEGIN
    RETURN QUERY SELECT answer.allowed, (p_limit - answer.remaining)::integer,
        CASE WHEN answer.allowed THEN 0
             WHEN answer.retry_after_ms < 0 THEN p_window_seconds -- never: a limit of 0
             ELSE ((answer.retry_after_ms + 999) / 1000)::integer END;
END $$;

-- Count in the window with this start and length. Windows with different starts are counted apart,
-- so a client with a wrong clock does not change the counts of others. A row is kept for another
-- window length after the window, or after the last count in it: at least an hour, at most a day.
-- A window has at most 400 days, so that every row expires some day.
--
-- p_enough: from this count on, the views show denials, for callers that deny by themselves.
DROP FUNCTION IF EXISTS weir.count_in_window(text, bytea, timestamptz, bigint, bigint);
CREATE OR REPLACE FUNCTION weir.count_in_window(
    p_who text, p_identity bytea, p_start timestamptz, p_window_ms bigint, p_limit bigint,
    p_enough bigint, OUT allowed boolean, OUT count integer)
LANGUAGE plpgsql AS $$
DECLARE
    most_ms CONSTANT bigint := 400 * 86400000::bigint;
    keep_ms CONSTANT bigint := greatest(3600000, least(p_window_ms, 86400000));
    clock CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
    secret CONSTANT bytea := (SELECT bytes FROM weir.secret);
    parts CONSTANT text[] := ARRAY['windows that come with a request'];
    start bigint;
    expires bigint;
    said record;
BEGIN
    IF NOT isfinite(p_start) THEN
        PERFORM weir.reject('the start of the window must be a finite time');
    ELSIF p_window_ms > most_ms THEN
        PERFORM weir.reject('the window is too long: it may have 400 days at most');
    END IF;
    start := floor(extract(epoch FROM p_start) * 1000);
    IF start - clock > p_window_ms THEN
        PERFORM weir.reject('the window begins in the future: is the client''s clock right?');
    END IF;
    expires := greatest(start + p_window_ms, clock) + keep_ms;
    -- A fixed window from the epoch until the row expires; this key has no other. The count of a
    -- fixed window is never multiplied, so any length fits.
    SELECT * INTO said FROM weir.judge(
        ARRAY[weir.key_of(secret, parts, p_identity || timestamptz_send(p_start))], '{1}',
        ARRAY[p_limit], ARRAY[expires], ARRAY[p_limit], '{0}', '{1}', '{1}', NULL, NULL, NULL, '{1}');
    allowed := said.allowed[1];
    count := p_limit - said.remaining[1];
    -- The tag of an identity is the same in all windows.
    PERFORM weir.count_answer(
        ROW(allowed AND count <= coalesce(p_enough, p_limit), p_who, 'default', p_limit,
            said.remaining[1], 0, 0, 0, 'store', '[]'),
        CASE WHEN NOT allowed OR count > p_enough
             THEN weir.tag_of(secret, '{key}', p_identity) END, false);
END $$;

-- How many requests this identifier has made to this endpoint in this window, this one included.
-- The caller compares it with a limit; the count saturates at the largest integer. With p_limit,
-- the views show how many requests the caller denies.
CREATE OR REPLACE FUNCTION weir.upsert_rate_limit(
    p_identifier text, p_endpoint text, p_window_start timestamptz, p_window_end timestamptz,
    p_limit integer DEFAULT NULL)
RETURNS weir.request_count
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (p_window_start < p_window_end AND isfinite(p_window_start) AND isfinite(p_window_end))
       IS NOT TRUE THEN
        PERFORM weir.reject('the window must end after its start, and both must be finite times');
    END IF;
    RETURN ROW((weir.count_in_window('upsert_rate_limit',
        weir.sized('the identifier', coalesce(p_identifier, ''))
        || weir.sized('the endpoint', coalesce(p_endpoint, '')),
        p_window_start,
        -- Two epochs, because the difference may be too long for an interval.
        ceil((extract(epoch FROM p_window_end) - extract(epoch FROM p_window_start)) * 1000)::bigint,
        2147483647, p_limit)).count)::weir.request_count;
END $$;

-- At most p_limit a day; days begin at 0:00 UTC. Counts only below the limit.
CREATE OR REPLACE FUNCTION weir.increment_rate_limit(
    p_key text, p_limit integer, p_window_start date DEFAULT NULL)
RETURNS weir.daily_count
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    said record;
BEGIN
    IF p_limit IS NULL OR p_limit < 0 THEN
        PERFORM weir.reject('limit must be at least 0 (0 always denies)');
    END IF;
    said := weir.count_in_window('increment_rate_limit',
        weir.sized('the key', coalesce(p_key, '')),
        coalesce(p_window_start, (clock_timestamp() AT TIME ZONE 'UTC')::date)::timestamp
            AT TIME ZONE 'UTC',
        86400000, p_limit, NULL);
    RETURN ROW(said.count, said.allowed)::weir.daily_count;
END $$;

-- ---- where PostgREST looks ----------------------------------------------------------------------

-- Make the functions callable in another schema, for weir_caller only. A function of the same name
-- that is not weir's is not replaced: it is an error.
CREATE OR REPLACE FUNCTION weir.expose(p_schema text DEFAULT 'public') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mark CONSTANT text := 'calls the function of the same name in schema weir';
    inner_function record;
    outer_function regprocedure;
BEGIN
    FOR inner_function IN
        SELECT p.oid, p.proname AS name, pg_get_function_identity_arguments(p.oid) AS identity,
               pg_get_function_arguments(p.oid) AS arguments,
               pg_get_function_result(p.oid) AS result, p.proretset AS is_set,
               (SELECT string_agg(quote_ident(p.proargnames[i]), ', ' ORDER BY i)
                  FROM generate_series(1, p.pronargs) AS i) AS names
          FROM pg_proc p
         WHERE p.pronamespace = 'weir'::regnamespace
           AND p.proname IN ('check_rate_limit', 'upsert_rate_limit', 'increment_rate_limit',
                             'cleanup_old_rate_limit_buckets')
    LOOP
        outer_function := to_regprocedure(format('%I.%I(%s)', p_schema, inner_function.name,
            (SELECT string_agg(format_type(t, NULL), ',' ORDER BY n)
               FROM pg_proc p, unnest(p.proargtypes) WITH ORDINALITY AS a (t, n)
              WHERE p.oid = inner_function.oid)));
        IF outer_function IS NOT NULL
           AND obj_description(outer_function, 'pg_proc') IS DISTINCT FROM mark THEN
            RAISE EXCEPTION '% exists already and is not weir''s: drop it first', outer_function
                USING ERRCODE = 'duplicate_function';
        END IF;
        -- Drop our older versions with other signatures.
        FOR outer_function IN
            SELECT p.oid FROM pg_proc p
             WHERE p.pronamespace = to_regnamespace(quote_ident(p_schema))
               AND p.proname = inner_function.name
               AND obj_description(p.oid, 'pg_proc') = mark
               AND (pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid))
                   <> (inner_function.identity, inner_function.result)
        LOOP
            EXECUTE 'DROP FUNCTION ' || outer_function;
        END LOOP;
        EXECUTE format('CREATE OR REPLACE FUNCTION %I.%I(%s) RETURNS %s LANGUAGE sql '
                       'SET search_path = pg_catalog, pg_temp AS %L',
                       p_schema, inner_function.name, inner_function.arguments,
                       inner_function.result,
                       format(CASE WHEN inner_function.is_set THEN 'SELECT * FROM weir.%I(%s)'
                                   ELSE 'SELECT weir.%I(%s)' END,
                              inner_function.name, inner_function.names));
        EXECUTE format('COMMENT ON FUNCTION %I.%I(%s) IS %L', p_schema, inner_function.name,
                       inner_function.identity, mark);
        EXECUTE format('REVOKE ALL ON FUNCTION %I.%I(%s) FROM PUBLIC', p_schema,
                       inner_function.name, inner_function.identity);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %I.%I(%s) TO weir_caller', p_schema,
                       inner_function.name, inner_function.identity);
    END LOOP;
END $$;

-- Revert weir.expose() in all schemas.
CREATE OR REPLACE FUNCTION weir.unexpose() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    outer_function regprocedure;
BEGIN
    FOR outer_function IN
        SELECT objoid FROM pg_description
         WHERE classoid = 'pg_proc'::regclass
           AND description = 'calls the function of the same name in schema weir'
    LOOP
        EXECUTE 'DROP FUNCTION ' || outer_function;
    END LOOP;
END $$;

-- Update the schemas where they are exposed already.
SELECT weir.expose(n.nspname)
  FROM (SELECT DISTINCT p.pronamespace FROM pg_catalog.pg_description d
          JOIN pg_catalog.pg_proc p ON p.oid = d.objoid
         WHERE d.classoid = 'pg_catalog.pg_proc'::regclass
           AND d.description = 'calls the function of the same name in schema weir') AS s
  JOIN pg_catalog.pg_namespace n ON n.oid = s.pronamespace;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    weir.check_rate_limit(text, integer, integer),
    weir.upsert_rate_limit(text, text, timestamptz, timestamptz, integer),
    weir.increment_rate_limit(text, integer, date)
    TO weir_caller;
INSERT INTO weir.migrations (number, name) VALUES (5, 'compatible') ON CONFLICT DO NOTHING;
COMMIT;
