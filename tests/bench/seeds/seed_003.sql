-- seed_003.sql - a sliding window of buckets of a second; it counts, cleans up and then charges.
-- It runs as it was written. Rows that are present do not expire while it is measured: when they
-- do, each check deletes what others left behind, and it is slower by far.
CREATE SCHEMA seed_003;
CREATE TABLE seed_003.rate_limits (
    key text NOT NULL,
    bucket_time timestamptz NOT NULL,
    count integer NOT NULL DEFAULT 1,
    PRIMARY KEY (key, bucket_time));
CREATE INDEX ON seed_003.rate_limits (bucket_time);

CREATE FUNCTION seed_003.check_rate_limit(p_key text, p_limit integer, p_window_seconds integer)
RETURNS TABLE (allowed boolean, current_count integer, retry_after integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_window interval := (p_window_seconds || ' seconds')::interval;
    v_window_start timestamptz := now() - v_window;
    v_current_count integer;
    v_oldest_bucket timestamptz;
BEGIN
    SELECT coalesce(sum(r.count), 0) INTO v_current_count
      FROM seed_003.rate_limits r WHERE r.key = p_key AND r.bucket_time > v_window_start;
    DELETE FROM seed_003.rate_limits r WHERE r.bucket_time <= v_window_start - v_window;
    IF v_current_count >= p_limit THEN
        SELECT min(r.bucket_time) INTO v_oldest_bucket
          FROM seed_003.rate_limits r WHERE r.key = p_key AND r.bucket_time > v_window_start;
        RETURN QUERY SELECT false, v_current_count,
                            extract(epoch FROM v_oldest_bucket + v_window - now())::integer;
    ELSE
        INSERT INTO seed_003.rate_limits AS r (key, bucket_time, count)
        VALUES (p_key, date_trunc('second', now()), 1)
        ON CONFLICT (key, bucket_time) DO UPDATE SET count = r.count + 1;
        RETURN QUERY SELECT true, v_current_count + 1, 0;
    END IF;
END $$;

INSERT INTO seed_003.rate_limits (key, bucket_time)
SELECT 'key:' || i, now() FROM generate_series(1, :rows) AS i;
