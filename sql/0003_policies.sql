-- 0003_policies.sql - the policies table, identities of requests, and their keys.
--
-- SQL callers and servers with this store share the rows: the same policy and the same identity
-- count against the same limit.
--
-- FORMAT of a policy's document, as `weir policy push` writes it: all defaults are filled in, all
-- durations are ms. What is in brackets may be left out.
--
--   {"mode": "enforce",               [enforce, shadow, off]
--    "on_error": "local",             [for the server: local, allow, deny]
--    "retry_after": "longest",        [longest, soonest]
--    "reserve": {"ttl_ms": 60000, "max_ttl_ms": 600000, "on_expiry": "release"},
--                                     [each of them, too; charge, release]
--    "exempt": [{"ip": ["10.0.0.0/8"], "user": ["cron"]}],  [the file's and the policy's]
--    "rules": [{"name": "default",
--               "mode": "enforce",    [its own or the policy's, whichever does less]
--               "algorithm": "sliding_window", [concurrency has a window_ms of 0]
--               "limit": 5, "window_ms": 900000,
--               "period": "month", "zone": "Europe/Berlin", "month_day": 15,
--                                     [a window of the calendar; with plans and shadow_limit, too]
--               "burst": 5,           [token_bucket and leaky_bucket]
--               "precision_ms": 1,    [sliding_window]
--               "block_for_ms": 900000, [a denial locks its key out for so long]
--               "counts": "tokens",   [the amount of a request that it counts; requests]
--               "start": "first",     [fixed_window: it begins with the first charge in it]
--               "by": ["ip"],         [none: all together]
--               "ipv6_prefix": 64,    [64]
--               "plans": {"paid": {"limit": 50, "window_ms": 900000}},  [with burst, precision_ms]
--               "shadow_limit": {"limit": 3, "window_ms": 900000}}]}    [likewise]
--
-- ERRORS are exceptions: 42704 for an unknown policy, 22023 for every other mistake of a caller.
-- No error text contains an identity. A denial is an answer, not an error.
BEGIN;
SET LOCAL client_min_messages = warning;

CREATE TABLE IF NOT EXISTS weir.policies (
    name      text PRIMARY KEY,
    document  jsonb NOT NULL,
    pushed_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
ALTER TABLE weir.policies ENABLE ROW LEVEL SECURITY;

-- Answers to SQL callers, until weir.tidy() sums them up. UNLOGGED: losing a minute of counts in a
-- crash is acceptable, a disk write for each denial is not. weir.tally = off turns it off.
CREATE UNLOGGED TABLE IF NOT EXISTS weir.tally (
    minute     timestamptz NOT NULL,
    policy     text NOT NULL,
    rule       text NOT NULL,
    allowed    boolean NOT NULL,
    shadow_denied boolean NOT NULL,
    tag        text -- of the identity, if it was denied
);
CREATE INDEX IF NOT EXISTS tally_minute ON weir.tally (minute);
ALTER TABLE weir.tally ENABLE ROW LEVEL SECURITY;

DO $$
BEGIN
    IF to_regtype('weir.answer') IS NULL THEN
        CREATE TYPE weir.answer AS (
            allowed        boolean,
            policy         text,
            rule           text,    -- the one that decided
            "limit"        bigint,
            remaining      bigint,  -- requests of cost 1 that would still pass
            retry_after_ms bigint,  -- 0 if allowed; exact; -1: waiting does not help
            reset_after_ms bigint,
            delay_ms       bigint,  -- leaky bucket: wait this long before the request runs
            source         text,    -- store, exempt, blocked, off
            rules          jsonb    -- all of them, in the policy's order
        );
    END IF;
END $$;

CREATE OR REPLACE FUNCTION weir.reject(text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', $1 USING ERRCODE = 'invalid_parameter_value';
END $$;

-- ---- keys ---------------------------------------------------------------------------------------

-- HMAC-SHA256 with a key of 16 or 32 bytes.
CREATE OR REPLACE FUNCTION weir.hmac(key bytea, message bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    inner_pad bytea := '';
    outer_pad bytea := '';
    word bigint;
BEGIN
    FOR i IN 0..octet_length(key) / 8 - 1 LOOP
        word := ('x' || encode(substr(key, 8 * i + 1, 8), 'hex'))::bit(64)::bigint;
        inner_pad := inner_pad || int8send(word # 3906369333256140342); -- 0x3636...
        outer_pad := outer_pad || int8send(word # 6655295901103053916); -- 0x5c5c...
    END LOOP;
    inner_pad := inner_pad || decode(repeat('36', 64 - octet_length(key)), 'hex');
    outer_pad := outer_pad || decode(repeat('5c', 64 - octet_length(key)), 'hex');
    RETURN sha256(outer_pad || sha256(inner_pad || message));
END $$;

-- The key of an identity under a rule; the parts identify the rule.
CREATE OR REPLACE FUNCTION weir.key_of(secret bytea, parts text[], identity bytea) RETURNS uuid
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    message bytea := 'weir hash key';
    part text;
BEGIN
    FOREACH part IN ARRAY parts LOOP
        message := message || '\x00'::bytea || convert_to(part, 'UTF8');
    END LOOP;
    RETURN encode(substr(weir.hmac(substr(weir.hmac(secret, message), 1, 16), identity), 1, 16),
                  'hex')::uuid;
END $$;

-- The tag of an identity in logs, views and commands. It does not reveal the identity, and is the
-- same for all rules that count by the same attributes.
DROP FUNCTION IF EXISTS weir.tag_of(bytea, uuid);
CREATE OR REPLACE FUNCTION weir.tag_of(secret bytea, names text[], identity bytea) RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$
    SELECT weir.key_of(secret, ARRAY['tag of'] || names, identity)
$$;

-- ---- identities ---------------------------------------------------------------------------------

-- Parse IPv4 or IPv6 as ip_read() in src/policy/ip.c does: IPv4-mapped IPv6 becomes IPv4; a zone
-- id, brackets and a port are dropped. NULL: not an address.
CREATE OR REPLACE FUNCTION weir.read_ip(value text) RETURNS inet
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    byte CONSTANT text := '(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
    dotted CONSTANT text := byte || '(?:\.' || byte || '){3}';
    parts text[];
    mapped text;
BEGIN
    IF octet_length(value) > 128 THEN
        RETURN NULL;
    END IF;
    parts := regexp_match(value, '\A(' || dotted || ')(?::([0-9]{1,5}))?\Z');
    IF parts IS NOT NULL THEN
        RETURN CASE WHEN coalesce(parts[2]::integer, 0) <= 65535 THEN parts[1]::inet END;
    END IF;
    parts := coalesce(
        regexp_match(value, '\A\[([0-9A-Fa-f:.]+)(?:%[^][/%\x01-\x20]+)?\](?::([0-9]{1,5}))?\Z'),
        regexp_match(value, '\A([0-9A-Fa-f:.]+)(?:%[^][/%\x01-\x20]+)?\Z'));
    IF parts IS NULL OR parts[2]::integer > 65535 OR position(':' IN parts[1]) = 0
       OR (position('.' IN parts[1]) > 0 AND parts[1] !~ (':' || dotted || '\Z')) THEN
        RETURN NULL;
    END IF;
    BEGIN
        mapped := substring(host(parts[1]::inet) FROM '\A::ffff:([0-9]+[.][0-9.]+)\Z');
        RETURN coalesce(mapped, parts[1])::inet;
    EXCEPTION WHEN invalid_text_representation THEN
        RETURN NULL;
    END;
END $$;

-- IPv4 as dotted decimal; IPv6 as its prefix in RFC 5952 form, with "/bits".
CREATE OR REPLACE FUNCTION weir.write_ip(address inet, ipv6_prefix integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    cut text;
    tail integer[];
BEGIN
    IF family(address) = 4 THEN
        RETURN host(address);
    END IF;
    cut := host(network(set_masklen(address, ipv6_prefix)));
    IF position('.' IN cut) > 0 THEN -- Postgres writes the end of ::/96 as IPv4
        tail := string_to_array(substring(cut FROM '[^:]+\Z'), '.')::integer[];
        cut := substring(cut FROM '\A.*:') || to_hex(tail[1] * 256 + tail[2]) || ':'
               || to_hex(tail[3] * 256 + tail[4]);
    END IF;
    RETURN cut || '/' || ipv6_prefix;
END $$;

CREATE OR REPLACE FUNCTION weir.normal_email(value text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT translate(btrim(value, E' \t\n\x0b\x0c\r'), 'ABCDEFGHIJKLMNOPQRSTUVWXYZ',
                     'abcdefghijklmnopqrstuvwxyz')
$$;

-- A value with its length as prefix, as in src/policy/identity.h. `what` is for the error text.
CREATE OR REPLACE FUNCTION weir.sized(what text, value text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF value = '' THEN
        PERFORM weir.reject(what || ' is empty');
    ELSIF octet_length(value) > 4096 THEN
        PERFORM weir.reject(what || ' is too long: what one rule counts by may have 4096 bytes'
                                    ' together');
    END IF;
    RETURN convert_to(octet_length(convert_to(value, 'UTF8')) || ':' || value, 'UTF8');
END $$;

-- The identity that a rule counts, as bytes.
CREATE OR REPLACE FUNCTION weir.identity_of(policy text, rule jsonb, attributes jsonb) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    identity bytea := '';
    size integer := 0;
    name text;
    value text;
    address inet;
    what text;
BEGIN
    FOR name IN SELECT jsonb_array_elements_text(rule->'by') LOOP
        value := attributes->>name;
        what := format('policy ''%s'': attribute ''%s''', policy, name);
        IF value IS NULL THEN
            PERFORM weir.reject(format('policy ''%s'': the request has no attribute ''%s'', which '
                'rule ''%s'' counts by', policy, name, rule->>'name'));
        ELSIF name = 'ip' AND value <> '' THEN
            address := weir.read_ip(value);
            IF address IS NULL THEN
                PERFORM weir.reject(what || ' is not an IP address: 203.0.113.7 or 2001:db8::7 '
                                            'would be');
            END IF;
            value := weir.write_ip(address, coalesce((rule->>'ipv6_prefix')::integer, 64));
        ELSIF name = 'email' THEN
            value := weir.normal_email(value);
        END IF;
        identity := identity || weir.sized(what, value);
        size := size + octet_length(convert_to(value, 'UTF8'));
        IF size > 4096 THEN
            PERFORM weir.sized(what, repeat(' ', 4097));
        END IF;
    END LOOP;
    RETURN identity;
END $$;

-- Does one of these exemptions match?
CREATE OR REPLACE FUNCTION weir.is_exempt(exempt jsonb, attributes jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    entry jsonb;
    name text;
    wanted jsonb;
    value text;
    address inet;
    meets boolean;
BEGIN
    FOR entry IN SELECT jsonb_array_elements(exempt) LOOP
        meets := true;
        FOR name, wanted IN SELECT * FROM jsonb_each(entry) LOOP
            value := attributes->>name;
            IF value IS NULL THEN
                meets := false;
            ELSIF name = 'ip' THEN
                address := weir.read_ip(value);
                meets := EXISTS (SELECT FROM jsonb_array_elements_text(wanted) AS net
                                  WHERE address <<= net::inet);
            ELSIF name = 'email' THEN
                meets := wanted ? weir.normal_email(value);
            ELSE
                meets := wanted ? value;
            END IF;
            EXIT WHEN NOT meets;
        END LOOP;
        IF meets THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;

-- ---- numbers ------------------------------------------------------------------------------------

-- The instant in ms of 0:00 of a day in a zone: the first whose local time is at or after it.
CREATE OR REPLACE FUNCTION weir.midnight(day date, zone text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    civil CONSTANT timestamp := day;
    guess CONSTANT timestamptz := civil AT TIME ZONE zone;
    low timestamptz := guess - interval '26 hours';
    high timestamptz := low;
    middle timestamptz;
BEGIN
    IF (guess - interval '26 hours') AT TIME ZONE zone = civil - interval '26 hours'
       AND (guess + interval '26 hours') AT TIME ZONE zone = civil + interval '26 hours' THEN
        RETURN extract(epoch FROM guess)::bigint * 1000; -- no change of the offset is near
    END IF;
    -- Local time may step back over midnight: look from the left.
    WHILE high AT TIME ZONE zone < civil LOOP
        low := high;
        high := high + interval '15 minutes';
    END LOOP;
    WHILE high - low > interval '1 second' LOOP
        middle := date_trunc('second', low + (high - low) / 2);
        IF middle AT TIME ZONE zone >= civil THEN
            high := middle;
        ELSE
            low := middle;
        END IF;
    END LOOP;
    RETURN extract(epoch FROM high)::bigint * 1000;
END $$;

-- Five boundaries around a time, as calendar_bounds() in src/limit/calendar.c.
CREATE OR REPLACE FUNCTION weir.calendar_bounds(
    period text, zone text, month_day integer, now_ms bigint) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    today CONSTANT date := (to_timestamp(now_ms / 1000) AT TIME ZONE zone)::date;
    first CONSTANT date := date_trunc(period, today::timestamp)::date;
    step CONSTANT interval := CASE period WHEN 'quarter' THEN interval '3 months'
                                          ELSE ('1 ' || period)::interval END;
    day date;
    at bigint;
    found bigint[] := '{}';
    i integer := 2;
BEGIN
    FOR k IN -4..6 LOOP
        day := (first + k * step)::date;
        IF period IN ('month', 'quarter', 'year') THEN
            day := least(day + month_day - 1, (day + interval '1 month')::date - 1);
        END IF;
        at := weir.midnight(day, zone);
        IF found = '{}' OR at > found[cardinality(found)] THEN
            found := found || at;
        END IF;
    END LOOP;
    WHILE found[i + 1] <= now_ms LOOP
        i := i + 1;
    END LOOP;
    RETURN found[i - 1:i + 3];
END $$;

-- A rule's number for weir.judge() and the part of its key that says which windows it has.
CREATE OR REPLACE FUNCTION weir.windows_of(
    rule jsonb, numbers jsonb, INOUT number integer, window_ms bigint, OUT part text,
    OUT bounds bigint[])
LANGUAGE plpgsql STABLE AS $$
BEGIN
    part := window_ms::text;
    bounds := '{0,0,0,0,0}';
    IF numbers ? 'period' THEN
        number := 33;
        part := format('%s %s %s', numbers->>'period', coalesce(numbers->>'month_day', '1'),
                       numbers->>'zone');
        bounds := weir.calendar_bounds(
            numbers->>'period', numbers->>'zone', coalesce((numbers->>'month_day')::integer, 1),
            floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint);
    ELSIF rule->>'start' = 'first' THEN
        IF number <> 1 THEN
            PERFORM weir.reject('only fixed_window has a start');
        END IF;
        number := 17;
        part := part || ' first';
    END IF;
END $$;

-- Fill in the defaults of a limit and check its bounds, as rule_check() in src/limit/limit.c.
CREATE OR REPLACE FUNCTION weir.complete(
    algorithm text, INOUT "limit" bigint, INOUT window_ms bigint, INOUT burst bigint,
    INOUT precision_ms bigint, OUT number integer)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    most CONSTANT bigint := 9007199254740991;
    is_bucket CONSTANT boolean := algorithm IN ('token_bucket', 'leaky_bucket');
    is_sliding CONSTANT boolean := algorithm = 'sliding_window';
BEGIN
    number := array_position(ARRAY['fixed_window', 'sliding_window', 'sliding_counter',
                                   'token_bucket', 'leaky_bucket', 'concurrency'], algorithm);
    IF number IS NULL THEN
        PERFORM weir.reject('there is no such algorithm: use fixed_window, sliding_window, '
                            'sliding_counter, token_bucket, leaky_bucket or concurrency');
    ELSIF "limit" IS NULL OR "limit" < 0 THEN
        PERFORM weir.reject('limit must be at least 0 (0 always denies)');
    ELSIF algorithm = 'concurrency' THEN
        IF "limit" > 65536 OR coalesce(window_ms, 0) <> 0 OR burst IS NOT NULL
           OR precision_ms IS NOT NULL THEN
            PERFORM weir.reject('a limit of what runs at once is at most 65536, and has no window');
        END IF;
        window_ms := 0;
        burst := "limit";
        precision_ms := 0;
        RETURN;
    ELSIF "limit" > 0 AND coalesce(window_ms, 0) < 1 THEN
        PERFORM weir.reject('the window must be at least 1 ms');
    ELSIF burst IS NOT NULL AND (burst < 1 OR NOT is_bucket) THEN
        PERFORM weir.reject('burst must be at least 1, and only token_bucket and leaky_bucket have '
                            'it');
    ELSIF precision_ms IS NOT NULL AND NOT is_sliding THEN
        PERFORM weir.reject('only sliding_window has a precision');
    END IF;
    IF "limit" = 0 THEN
        window_ms := coalesce(window_ms, 0);
        burst := 0;
        precision_ms := 0;
        RETURN;
    END IF;
    burst := coalesce(burst, "limit");
    -- These multiply a limit by the window.
    IF (is_bucket OR algorithm = 'sliding_counter')
       AND greatest("limit", burst) > most / window_ms THEN
        PERFORM weir.reject(format('limit and burst times a window of %s ms must be below 2^53: '
            'with this window they can be at most %s', window_ms, most / window_ms));
    END IF;
    IF "limit" > most OR window_ms > most THEN
        PERFORM weir.reject('limit and window must be below 2^53');
    END IF;
    precision_ms := CASE WHEN NOT is_sliding THEN 0
                         WHEN precision_ms IS NOT NULL THEN precision_ms
                         WHEN "limit" <= 60 THEN 1
                         ELSE (window_ms + 59) / 60 END;
    IF is_sliding AND precision_ms NOT BETWEEN 1 AND window_ms THEN
        PERFORM weir.reject(format('precision must be from 1 ms to the window of %s ms',
                                   window_ms));
    ELSIF is_sliding AND precision_ms - 1 > most - window_ms THEN
        PERFORM weir.reject('the window and its precision must be below 2^53 ms together');
    ELSIF is_sliding AND least(window_ms / precision_ms + 1, "limit") > 1048576 THEN
        PERFORM weir.reject('this precision makes more than 1048576 buckets a key: use a coarser '
                            'one');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION weir.check_cost(cost bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF cost IS NULL OR cost < 0 OR cost > 9007199254740992 THEN
        PERFORM weir.reject('cost must be from 0 to 2^53');
    END IF;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA weir FROM PUBLIC;
INSERT INTO weir.migrations (number, name) VALUES (3, 'policies') ON CONFLICT DO NOTHING;
COMMIT;
