-- pre_request.sql - checks a limit before every request of PostgREST.
--
--   psql -f examples/postgres/pre_request.sql      as the owner of weir's schema
--   db-pre-request = "public.limit_request"        in PostgREST's configuration; with Supabase:
--   ALTER ROLE authenticator SET pgrst.db_pre_request = 'public.limit_request'; NOTIFY pgrst, 'reload config';
--
-- It checks the policy `api`, which counts by `who`: the user of the token, or else the address. Push one:
--
--   policies: {api: {limit: 100 per 1m, by: who, algorithm: token_bucket}}
--
-- PostgREST calls it in the transaction of the request, which is read-only for GET and HEAD. So these are
-- denied when the limit is used up, but are not counted. A request that ends in an error is not counted
-- either. If that is not enough, check the limit in front of PostgREST: docs/sql.md.
CREATE OR REPLACE FUNCTION public.limit_request() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    headers CONSTANT jsonb := coalesce(nullif(current_setting('request.headers', true), ''), '{}');
    claims CONSTANT jsonb := coalesce(nullif(current_setting('request.jwt.claims', true), ''), '{}');
    -- The nearest proxy has written the last address; the client can forge those before it.
    address CONSTANT text := coalesce(
        btrim(regexp_replace(headers->>'x-forwarded-for', '^.*,', '')), 'unknown');
    is_read CONSTANT boolean := current_setting('request.method', true) IN ('GET', 'HEAD');
    answer weir.answer;
BEGIN
    answer := weir.check('api', jsonb_build_object('who', coalesce('user ' || (claims->>'sub'),
                                                                   'address ' || address)),
                         p_peek => is_read);
    IF NOT answer.allowed THEN
        RAISE SQLSTATE 'PGRST' USING
            message = json_build_object('code', 'denied', 'message', 'too many requests',
                                        'details', NULL, 'hint', 'come back after Retry-After')::text,
            detail = json_build_object('status', 429, 'headers', CASE
                WHEN answer.retry_after_ms < 0 THEN '{}'::json
                ELSE json_build_object('Retry-After', ((answer.retry_after_ms + 999) / 1000)::text)
                END)::text;
    END IF;
END $$;

-- Every role of PostgREST calls it; it runs with the rights of its owner.
GRANT EXECUTE ON FUNCTION public.limit_request() TO PUBLIC;
