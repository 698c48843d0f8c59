-- 0001_tables.sql - the tables of weir in Postgres, and the roles that may use them.
--
-- Each migration is one transaction and is idempotent. The file of the same name under rollback/
-- reverts it. Postgres 13 or newer, no extensions.
--
-- ROLES
--   PUBLIC       nothing.
--   weir_caller  may call weir.check() and the like. For edge functions and other clients.
--   weir_server  for instances of the server: also weir.judge(), policies and reports.
--   weir_viewer  may read the views. For dashboards and alerts.
--   weir_operator
--                may read the views, push policies and change overrides, plans and modes.
--   Only the owner reads or writes the tables. The functions run with the owner's rights (SECURITY
--   DEFINER). Row-level security is enabled too, so that a careless GRANT opens nothing.
BEGIN;
SET LOCAL client_min_messages = warning; -- no NOTICE for objects that exist

CREATE SCHEMA IF NOT EXISTS weir;
REVOKE ALL ON SCHEMA weir FROM PUBLIC;

-- Postgres lets PUBLIC execute new functions by default; in this schema it does not.
ALTER DEFAULT PRIVILEGES IN SCHEMA weir REVOKE ALL ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA weir REVOKE ALL ON TABLES FROM PUBLIC;

-- Objects that had other names before 0.1.0 are renamed; functions created below are dropped.
DO $$
DECLARE
    made text;
BEGIN
    IF to_regclass('weir.limited') IS NULL THEN
        RETURN;
    END IF;
    DROP VIEW IF EXISTS weir.block_rate, weir.most_limited, weir.windows_over_limit, weir.checks,
                        weir.audit;
    FOR made IN SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
                 WHERE p.pronamespace = 'weir'::regnamespace
                   AND (p.proname IN ('overrule', 'overruled', 'rulings_of', 'rule_that', 'refuse')
                        OR p.proargnames && '{would_deny,subject,p_subject,requests,scope}') LOOP
        EXECUTE 'DROP FUNCTION ' || made;
    END LOOP;
    ALTER TABLE weir.tally RENAME COLUMN would_deny TO shadow_denied;
    ALTER TABLE weir.history RENAME COLUMN would_deny TO shadow_denied;
    ALTER TABLE weir.history_hours RENAME COLUMN would_deny TO shadow_denied;
    ALTER TABLE weir.limited RENAME CONSTRAINT limited_pkey TO denials_pkey;
    ALTER TABLE weir.limited RENAME TO denials;
    IF to_regclass('weir.ledger') IS NOT NULL THEN
        ALTER TABLE weir.ledger RENAME CONSTRAINT ledger_subject_check TO ledger_kind_check;
        ALTER TABLE weir.ledger RENAME COLUMN subject TO kind;
    END IF;
END $$;

-- Roles belong to the cluster: a migration of another database may create them at the same time.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['weir_caller', 'weir_server', 'weir_viewer', 'weir_operator'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
    END LOOP;
    IF NOT pg_catalog.pg_has_role('weir_server', 'weir_caller', 'MEMBER') THEN
        GRANT weir_caller TO weir_server;
    END IF;
    IF NOT pg_catalog.pg_has_role('weir_operator', 'weir_viewer', 'MEMBER') THEN
        GRANT weir_viewer TO weir_operator;
    END IF;
END $$;

GRANT USAGE ON SCHEMA weir TO weir_caller, weir_server, weir_viewer, weir_operator;

CREATE TABLE IF NOT EXISTS weir.migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);

-- The state of one key under one rule. What the columns hold depends on the rule's algorithm:
--
--                    at                    used               other              oldest
--   fixed_window     window start          count              end, if it began with the
--                                                             first charge in it
--   sliding_counter  window start          count              previous count
--   token_bucket,
--   leaky_bucket     time of `used`        request x ms
--   sliding_window   newest bucket         total count        newest count       oldest bucket
--   concurrency      time of `used`        slots held
--   cell             ms                    ns beyond
--
-- A bucket with holds, see weir.holds, has two more: `other` is what is known to be used at `at`, in
-- request x ms, and `oldest` the sum of the holds that expire after it.
--
-- The log of a sliding window has the buckets before the newest, oldest first: start, count, ...
--
-- Updates are HOT: a decision changes no indexed column, and pages keep free space. So no index
-- grows, and a later query on the page prunes dead tuples. Postgres prunes when a page is filled up
-- to `fillfactor`. If live rows alone filled it that far, every query would try to prune. So a row
-- is inserted larger than it will ever be again: the first update removes `room`. `due` is when
-- upkeep checks whether the row has expired: see weir.tidy().
CREATE TABLE IF NOT EXISTS weir.states (
    key     uuid PRIMARY KEY,  -- 16 bytes of HMAC-SHA256; identities are not stored
    at      bigint NOT NULL,
    used    bigint NOT NULL,
    other   bigint NOT NULL,
    oldest  bigint NOT NULL,
    expires bigint NOT NULL,   -- ms since the epoch: from then on the row counts as absent
    due     bigint NOT NULL,
    log     bigint[],
    room    text DEFAULT repeat(' ', 56)
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.5,
    autovacuum_vacuum_cost_delay = 1
);
-- The same settings for a table that an older version created.
ALTER TABLE weir.states ADD COLUMN IF NOT EXISTS room text DEFAULT repeat(' ', 56);
ALTER TABLE weir.states SET (fillfactor = 90);
CREATE INDEX IF NOT EXISTS states_due ON weir.states (due);

-- A key that a rule with a block_for has locked out: until then, as `expires`. Its state counts no
-- more: from then on the key is untouched. NULL: it is not locked out. 0: nor is that, but it is a
-- bucket with holds. Below 0: it has leases (-1), or holds and leases (-2). So a plain check has one
-- column to look at, and leaves these to weir.judge().
ALTER TABLE weir.states ADD COLUMN IF NOT EXISTS locked_until bigint;

-- The records of reservations: all that is needed to settle them, whatever the policies say then. The
-- arrays have an element for each charge. A record is known until 10 minutes after `expires`. `due`
-- is when upkeep looks at it; it is indexed instead of `expires`, so that updates are HOT.
CREATE TABLE IF NOT EXISTS weir.reservations (
    id          uuid PRIMARY KEY,  -- 16 bytes of HMAC-SHA256 of the caller's id
    fingerprint bigint NOT NULL,   -- of what was asked
    expires     bigint NOT NULL,   -- ms since the epoch
    most_ttl    bigint NOT NULL,   -- ms that an extension may have
    is_settled  boolean NOT NULL,
    part_count  integer NOT NULL,  -- of the rows in weir.holds that it has had
    due         bigint NOT NULL,
    keys        uuid[],            -- NULL while the question is judged
    algorithms  integer[],         -- these six as in weir.judge()
    limits      bigint[],
    windows     bigint[],
    bursts      bigint[],
    precisions  bigint[],
    blocks      bigint[],
    bounds      bigint[],          -- five of each charge
    calendars   text[],            -- period, month_day and zone; NULL: not of the calendar
    held        bigint[],
    used        bigint[],          -- once it is settled
    policies    text[],
    rules       text[],
    counts      text[],            -- the name of the amount
    shadows     boolean[]          -- judged alone, decides nothing
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 1
);
CREATE INDEX IF NOT EXISTS reservations_due ON weir.reservations (due);
-- What it holds is given back when it expires; and that was done.
ALTER TABLE weir.reservations ADD COLUMN IF NOT EXISTS gives_back boolean NOT NULL DEFAULT false;
ALTER TABLE weir.reservations ADD COLUMN IF NOT EXISTS is_released boolean NOT NULL DEFAULT false;

-- When reservations expire whose holds are then given back. A table of its own, so that updates of the
-- others are HOT.
CREATE TABLE IF NOT EXISTS weir.releases (
    expires     bigint NOT NULL,
    reservation uuid NOT NULL,
    PRIMARY KEY (expires, reservation)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);

-- What reservations hold of a key, in parts: where an amount lies, so that it can be given back. A
-- row that is missing was forgotten with the rest, by a reset or a lockout. Only a session that has
-- locked the key's row in weir.states changes these; upkeep removes them with their record.
CREATE TABLE IF NOT EXISTS weir.holds (
    key         uuid NOT NULL,
    expires     bigint NOT NULL,   -- of its reservation
    reservation uuid NOT NULL,
    part        integer NOT NULL,  -- in the order in which they were added
    mark        bigint NOT NULL,   -- the window or bucket that it is counted in; -1: leased, in none
    amount      bigint NOT NULL,
    PRIMARY KEY (key, expires, reservation, part)
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 1
);

-- Postgres has no arrays of arrays of different lengths: a composite type around each log.
DO $$
BEGIN
    IF to_regtype('weir.log') IS NULL THEN
        CREATE TYPE weir.log AS (entries bigint[]);
    END IF;
END $$;

-- One secret keys the hashes of all identities. All instances and SQL callers share it.
CREATE TABLE IF NOT EXISTS weir.secret (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    bytes bytea NOT NULL CHECK (octet_length(bytes) = 32)
);
-- A random UUID has 122 random bits: three of them are more than the 256 bits of the secret.
INSERT INTO weir.secret (bytes)
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
              || uuid_send(gen_random_uuid()))
ON CONFLICT DO NOTHING;

ALTER TABLE weir.migrations ENABLE ROW LEVEL SECURITY;
ALTER TABLE weir.states ENABLE ROW LEVEL SECURITY;
ALTER TABLE weir.secret ENABLE ROW LEVEL SECURITY;
ALTER TABLE weir.reservations ENABLE ROW LEVEL SECURITY;
ALTER TABLE weir.holds ENABLE ROW LEVEL SECURITY;
ALTER TABLE weir.releases ENABLE ROW LEVEL SECURITY;

-- The HMAC secret of the server. It lets its reader link a key to an identity.
CREATE OR REPLACE FUNCTION weir.server_secret() RETURNS bytea
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT bytes FROM weir.secret
$$;

-- Replace the secret, as with --secret-file. This drops all counts, because their keys were made
-- with the old secret. False: the secret is the same, nothing changed.
CREATE OR REPLACE FUNCTION weir.replace_secret(bytes bytea) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE weir.secret s SET bytes = replace_secret.bytes WHERE s.bytes <> replace_secret.bytes;
    IF FOUND THEN
        TRUNCATE weir.states, weir.holds, weir.reservations, weir.releases;
    END IF;
    RETURN FOUND;
END $$;

REVOKE ALL ON ALL TABLES IN SCHEMA weir FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION weir.server_secret() TO weir_server;

INSERT INTO weir.migrations (number, name) VALUES (1, 'tables') ON CONFLICT DO NOTHING;
COMMIT;
