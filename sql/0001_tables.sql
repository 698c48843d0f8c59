-- 0001_tables.sql - what weir keeps in Postgres, and who may touch it.
--
-- Every file here is one transaction, and changes nothing when it is run again; the file of the
-- same name under rollback/ takes it back. Postgres 13 or newer, no extensions.
--
-- WHO MAY DO WHAT
--   PUBLIC       nothing.
--   weir_caller  may ask: weir.check() and its like. For edge functions and other clients.
--   weir_server  may do what an instance of the server does: also weir.judge(), policies, reports.
--   weir_viewer  may read the views. For dashboards and alerts.
--   weir_operator
--                may read them, push policies and change overrides, plans and modes. For people.
--   Nobody reads or writes a table but the owner, whose rights the functions have. Row-level
--   security is on as well, so that a careless GRANT opens nothing.
BEGIN;
SET LOCAL client_min_messages = warning; -- what is there already is no news

CREATE SCHEMA IF NOT EXISTS weir;
REVOKE ALL ON SCHEMA weir FROM PUBLIC;

-- Functions are open to PUBLIC unless one says otherwise; in here they are not.
ALTER DEFAULT PRIVILEGES IN SCHEMA weir REVOKE ALL ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA weir REVOKE ALL ON TABLES FROM PUBLIC;

-- What had other names before 0.1.0 is renamed where it is; what the files below make anew is dropped.
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

-- Roles belong to the whole cluster: another database may have made them, perhaps right now.
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
--   fixed_window     the window's start    its count
--   sliding_counter  the window's start    its count          the last one's
--   token_bucket,
--   leaky_bucket     when it was so full   request x ms
--   sliding_window   newest bucket         count of all       of the newest      oldest bucket
--   cell             ms                    ns beyond
--
-- The log of a sliding window is the buckets before the newest, oldest first: start, count, ...
--
-- A decision changes no column that has an index, and pages keep room: so its update stays on the
-- page (HOT), no index grows, and a later visitor clears away what is dead. That is when a page is
-- as full as `fillfactor` says; if it were filled to that by its rows alone, each visitor would have
-- to. So a row is made larger than it will ever be again: its first change takes `room` away.
-- `due` is when to look whether the row has expired: see weir.tidy().
CREATE TABLE IF NOT EXISTS weir.states (
    key     uuid PRIMARY KEY,  -- 16 bytes of HMAC-SHA256; the identity itself is nowhere
    at      bigint NOT NULL,
    used    bigint NOT NULL,
    other   bigint NOT NULL,
    oldest  bigint NOT NULL,
    expires bigint NOT NULL,   -- ms since the epoch: then it is as if it had never been
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
-- As they are above, where the table was made before them.
ALTER TABLE weir.states ADD COLUMN IF NOT EXISTS room text DEFAULT repeat(' ', 56);
ALTER TABLE weir.states SET (fillfactor = 90);
CREATE INDEX IF NOT EXISTS states_due ON weir.states (due);

-- An array of logs, which differ in length, must be one of something else.
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
-- A random UUID has 122 random bits: three of them are more than 32 bytes can tell.
INSERT INTO weir.secret (bytes)
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
              || uuid_send(gen_random_uuid()))
ON CONFLICT DO NOTHING;

ALTER TABLE weir.migrations ENABLE ROW LEVEL SECURITY;
ALTER TABLE weir.states ENABLE ROW LEVEL SECURITY;
ALTER TABLE weir.secret ENABLE ROW LEVEL SECURITY;

-- What the server hashes with. Whoever has it can tell whose a key is.
CREATE OR REPLACE FUNCTION weir.server_secret() RETURNS bytea
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT bytes FROM weir.secret
$$;

-- Take another secret, as from --secret-file. All that is counted is forgotten by this: its keys
-- were made with the old one. False: it is the one there is.
CREATE OR REPLACE FUNCTION weir.replace_secret(bytes bytea) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE weir.secret s SET bytes = replace_secret.bytes WHERE s.bytes <> replace_secret.bytes;
    IF FOUND THEN
        TRUNCATE weir.states;
    END IF;
    RETURN FOUND;
END $$;

REVOKE ALL ON ALL TABLES IN SCHEMA weir FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA weir FROM PUBLIC;
GRANT EXECUTE ON FUNCTION weir.server_secret() TO weir_server;

INSERT INTO weir.migrations (number, name) VALUES (1, 'tables') ON CONFLICT DO NOTHING;
COMMIT;
