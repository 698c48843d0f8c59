-- seed_001.sql - fixed windows, one upsert a check; the caller compares the count with its limit.
-- As it was written it does not run: the function lacks RETURN QUERY, and the index on window_end
-- had a predicate with now(), which is not immutable. Both are put right here, nothing else is.
CREATE SCHEMA seed_001;
CREATE TABLE seed_001.rate_limits (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    identifier text NOT NULL,
    endpoint text NOT NULL,
    requests_count int NOT NULL DEFAULT 1,
    window_start timestamptz NOT NULL DEFAULT now(),
    window_end timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now());
CREATE UNIQUE INDEX ON seed_001.rate_limits (identifier, endpoint, window_start);
CREATE INDEX ON seed_001.rate_limits (window_end);

CREATE FUNCTION seed_001.upsert_rate_limit(
    p_identifier text, p_endpoint text, p_window_start timestamptz, p_window_end timestamptz)
RETURNS TABLE (requests_count int) LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    INSERT INTO seed_001.rate_limits AS r
           (identifier, endpoint, window_start, window_end, requests_count)
    VALUES (p_identifier, p_endpoint, p_window_start, p_window_end, 1)
    ON CONFLICT (identifier, endpoint, window_start)
    DO UPDATE SET requests_count = r.requests_count + 1, updated_at = now()
    RETURNING r.requests_count;
END $$;

INSERT INTO seed_001.rate_limits (identifier, endpoint, window_start, window_end)
SELECT 'key:' || i, '/', date_trunc('day', now()), date_trunc('day', now()) + interval '1 day'
  FROM generate_series(1, :rows) AS i;
