/* limit.mjs - what the instances of a storm share. */
export const LIMIT = { limit: 1500, window: '1h', algorithm: 'fixed_window' }
