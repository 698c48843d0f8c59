-- seed_002.sql - days, one conditional upsert a check, sent as a statement: see bench_postgres.
-- The statement is as it was written. It never refuses: the count stops at the limit, and is then
-- asked to be at most the limit. Of its table, ids and times of change were left to a client library
-- that the statement goes around, which cannot work; here the database makes them.
CREATE SCHEMA seed_002;
CREATE TABLE seed_002.rate_limits (
    id text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    key text NOT NULL,
    window_start date NOT NULL,
    count int NOT NULL DEFAULT 1,
    created_at timestamp NOT NULL DEFAULT now(),
    updated_at timestamp NOT NULL DEFAULT now());
CREATE UNIQUE INDEX ON seed_002.rate_limits (key, window_start);
CREATE INDEX ON seed_002.rate_limits (window_start);

INSERT INTO seed_002.rate_limits (key, window_start)
SELECT 'key:' || i, current_date FROM generate_series(1, :rows) AS i;
