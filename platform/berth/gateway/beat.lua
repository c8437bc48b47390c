-- Each second: this gateway lives, and so far have its open requests come. A request closed meanwhile stays closed.
-- KEYS: gateway; ARGV: seconds to live, lease seconds, then for each open request:
--       id, its key, its leases or '', replica, prompt tokens, completion tokens
redis.replicate_commands()
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1e6
redis.call('SET', KEYS[1], math.floor(now), 'EX', ARGV[1])
for i = 3, #ARGV, 6 do
  if redis.call('EXISTS', ARGV[i + 1]) == 1 then
    redis.call('HSET', ARGV[i + 1], 'replica', ARGV[i + 3], 'prompt_tokens', ARGV[i + 4], 'tokens', ARGV[i + 5],
               'seen_ms', math.floor(now * 1000))
    if ARGV[i + 2] ~= '' then redis.call('ZADD', ARGV[i + 2], 'XX', now + tonumber(ARGV[2]), ARGV[i]) end
  end
end
return 1
