-- Admits one request under the limits of all its holders (key, tenant, contract), or under none of them.
-- KEYS: open request (hash), open requests (set), then of each holder:
--       requests per second (hash), tokens per second (hash), leases (zset)
-- ARGV: request id, tokens to reserve, lease seconds, holders, then of each holder:
--       requests/min or -1, tokens/min or -1, concurrency or -1; then fields and values of the open request
-- Returns {admitted, holder that refused or 0, what was over, wait ms, then of each holder:
--          requests left, reset ms, tokens left, reset ms}
-- A window is the last 60 whole seconds, one counter a second: exact to a second, and a settled request corrects its own.
-- A request that is open already was admitted: asked for again, it is again, and nothing is counted twice.
redis.replicate_commands()
local clock = redis.call('TIME')
local second = tonumber(clock[1])
local now = second + tonumber(clock[2]) / 1e6
local request, need, lease_s, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local function window(what, key, limit, needed)
  local found = {what = what, key = key, limit = limit, need = needed, used = 0, newest = 0, fields = {}}
  if limit < 0 then return found end
  local fields, oldest, used, newest = redis.call('HGETALL', key), second - 60, 0, 0
  for i = 1, #fields, 2 do
    local at = tonumber(fields[i])
    if at <= oldest then
      redis.call('HDEL', key, fields[i])
    else
      used = used + fields[i + 1]
      if at > newest then newest = at end
    end
  end
  found.used, found.newest, found.fields = used, newest, fields
  return found
end

local function ms_until(at) return math.max(1, math.ceil((at + 60 - now) * 1000)) end

local function wait_ms(w, excess) -- until so much of the window has passed
  local counters = {}
  for i = 1, #w.fields, 2 do
    local at = tonumber(w.fields[i])
    if at > second - 60 then counters[#counters + 1] = {at, tonumber(w.fields[i + 1])} end
  end
  table.sort(counters, function(a, b) return a[1] < b[1] end)
  for _, counter in ipairs(counters) do
    excess = excess - counter[2]
    if excess <= 0 then return ms_until(counter[1]) end
  end
  return 60000
end

local holders = {}
for i = 1, count do
  local k, a = 3 * i, 2 + 3 * i
  holders[i] = {
    windows = {window('requests', KEYS[k], tonumber(ARGV[a]), 1), window('tokens', KEYS[k + 1], tonumber(ARGV[a + 1]), need)},
    leases = KEYS[k + 2],
    max_leases = tonumber(ARGV[a + 2]),
  }
end

local function report(...)
  local answer = {...}
  for _, h in ipairs(holders) do
    for _, w in ipairs(h.windows) do
      answer[#answer + 1] = math.max(0, w.limit - w.used)
      answer[#answer + 1] = w.newest > 0 and ms_until(w.newest) or 0
    end
  end
  return answer
end

if redis.call('EXISTS', KEYS[1]) == 1 then return report(1, 0, '', 0) end

local who, over, wait = 0, '', 0 -- the limit that takes longest to have room again
local function refuse(holder, what, ms)
  if ms > wait then who, over, wait = holder, what, ms end
end
for i, h in ipairs(holders) do
  for _, w in ipairs(h.windows) do
    local excess = w.used + w.need - w.limit
    if w.limit >= 0 and excess > 0 then refuse(i, w.what, wait_ms(w, excess)) end
  end
  if h.max_leases >= 0 then
    redis.call('ZREMRANGEBYSCORE', h.leases, '-inf', now)
    if redis.call('ZCARD', h.leases) >= h.max_leases then refuse(i, 'concurrency', 1000) end
  end
end
if who > 0 then return report(0, who, over, wait) end

for _, h in ipairs(holders) do
  for _, w in ipairs(h.windows) do
    if w.limit >= 0 then
      redis.call('HINCRBY', w.key, second, w.need)
      redis.call('EXPIRE', w.key, 61)
      w.used, w.newest = w.used + w.need, second
    end
  end
  if h.max_leases >= 0 then
    redis.call('ZADD', h.leases, now + lease_s, request)
    redis.call('EXPIRE', h.leases, 86400)
  end
end
local fields = {'seen_ms', math.floor(now * 1000), 'second', second, 'reserved', need}
for i = 5 + 3 * count, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('EXPIRE', KEYS[1], 86400)
redis.call('SADD', KEYS[2], request)
return report(1, 0, '', 0)
