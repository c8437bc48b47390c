-- Each second: this gateway lives, and so far have its open requests come. A request closed meanwhile stays closed.
-- KEYS: gateway; ARGV: seconds to live, lease seconds, then for each open request:
--       id, its key, replica, prompt tokens, completion tokens, how many leases it holds, their keys
redis.replicate_commands()
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1e6
redis.call('SET', KEYS[1], math.floor(now), 'EX', ARGV[1])
local i = 3
while i <= #ARGV do
  local leases = tonumber(ARGV[i + 5])
  if redis.call('EXISTS', ARGV[i + 1]) == 1 then
    redis.call('HSET', ARGV[i + 1], 'replica', ARGV[i + 2], 'prompt_tokens', ARGV[i + 3], 'tokens', ARGV[i + 4],
               'seen_ms', math.floor(now * 1000))
    for k = i + 6, i + 5 + leases do
      redis.call('ZADD', ARGV[k], 'XX', now + tonumber(ARGV[2]), ARGV[i])
    end
  end
  i = i + 6 + leases
end
return 1
