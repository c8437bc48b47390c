-- Admits one request under the limits of all its holders (key, tenant, contract), or under none of them.
-- KEYS: open request (hash), open requests (set), then of each holder:
--       requests per second (hash), tokens per second (hash), leases (zset), budgets (hash)
-- ARGV: request id, tokens to reserve, cost to reserve, lease seconds, id of this Redis server,
--       starts of four months that follow each other, holders, then of each holder:
--       requests/min or -1, tokens/min or -1, concurrency or -1, tokens a day, cost a day, tokens a month, cost a month
--       or -1; then fields and values of the open request
-- Returns {1 admitted, 0 refused, -1 what a budget has used is not known; holder that refused or 0; what was over;
--          wait ms; used of a budget that is over; then of each holder: requests left, reset ms, tokens left, reset ms}
-- A window is the last 60 whole seconds, one counter a second: exact to a second, and a settled request corrects its own.
-- A budget holds for a day and a month of UTC. Its hash has counted everything of its holder since it was seeded
-- (seed.lua), so a day or month it has no field of has used nothing. Hashes another server filled are not trusted: it
-- may have lost the last of them.
-- A request that is open already was admitted: asked for again, it is again, and nothing is counted twice.
redis.replicate_commands()
local clock = redis.call('TIME')
local second = tonumber(clock[1])
local now = second + tonumber(clock[2]) / 1e6
local request, need, cost, lease_s = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local server, count = ARGV[5], tonumber(ARGV[10])
local KEPT_S = 40 * 86400

local day, month, next_month = second - second % 86400, ARGV[6], ARGV[7]
for i = 7, 8 do
  if tonumber(ARGV[i]) <= second then month, next_month = ARGV[i], ARGV[i + 1] end
end
local BUDGETS = {
  {name = 'tokens_day', field = 'tokens:day:' .. day, need = ARGV[2], ends = day + 86400},
  {name = 'cost_day', field = 'cost:day:' .. day, need = cost, ends = day + 86400},
  {name = 'tokens_month', field = 'tokens:month:' .. month, need = ARGV[2], ends = tonumber(next_month)},
  {name = 'cost_month', field = 'cost:month:' .. month, need = cost, ends = tonumber(next_month)},
}

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

local function budgets(key, first) -- what a holder may use and has used, as text: a double would round
  local state = redis.call('HMGET', key, 'server', 'seeding', BUDGETS[1].field, BUDGETS[2].field, BUDGETS[3].field,
                           BUDGETS[4].field)
  local found = {key = key, exists = state[1], seeded = state[1] == server and not state[2], new = not state[3],
                 used = {}, limits = {}, any = false}
  for i = 1, 4 do
    found.used[i], found.limits[i] = state[i + 2] or '0', ARGV[first + i - 1]
    if found.limits[i] ~= '-1' then found.any = true end
  end
  return found
end

local function parts(whole) -- billions and the rest of a whole number's text; below nothing is nothing
  if string.sub(whole, 1, 1) == '-' then return 0, 0 end
  return tonumber(string.sub(whole, 1, -10)) or 0, tonumber(string.sub(whole, -9))
end

local function is_over(used, needed, limit)
  local used_b, used_r = parts(used)
  local need_b, need_r = parts(needed)
  local limit_b, limit_r = parts(limit)
  return (used_b + need_b - limit_b) * 1e9 + (used_r + need_r - limit_r) > 0
end

local function turn(b) -- a new day: those long past go
  for _, field in ipairs(redis.call('HKEYS', b.key)) do
    local period, start = string.match(field, ':(%a+):(%d+)$')
    if start and tonumber(start) < day - (period == 'day' and 2 or 62) * 86400 then redis.call('HDEL', b.key, field) end
  end
  if b.any then redis.call('EXPIRE', b.key, KEPT_S) end
end

local holders = {}
for i = 1, count do
  local k, a = 4 * i - 1, 4 + 7 * i
  holders[i] = {
    windows = {window('requests', KEYS[k], tonumber(ARGV[a]), 1), window('tokens', KEYS[k + 1], tonumber(ARGV[a + 1]), need)},
    leases = KEYS[k + 2],
    max_leases = tonumber(ARGV[a + 2]),
    budgets = budgets(KEYS[k + 3], a + 3),
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

if redis.call('EXISTS', KEYS[1]) == 1 then return report(1, 0, '', 0, '0') end
for i, h in ipairs(holders) do
  if h.budgets.any and not h.budgets.seeded then return {-1, i, '', 0, '0'} end
end

local who, over, wait, spent = 0, '', 0, '0' -- the limit that takes longest to have room again
local function refuse(holder, what, ms, used)
  if ms > wait then who, over, wait, spent = holder, what, ms, used or '0' end
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
  for n, budget in ipairs(BUDGETS) do
    local limit, used = h.budgets.limits[n], h.budgets.used[n]
    if limit ~= '-1' and is_over(used, budget.need, limit) then
      refuse(i, budget.name, math.ceil((budget.ends - now) * 1000), used)
    end
  end
end
if who > 0 then return report(0, who, over, wait, spent) end

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
  if h.budgets.exists then -- also where no budget is set now: it may be again
    if h.budgets.new then turn(h.budgets) end
    for _, budget in ipairs(BUDGETS) do redis.call('HINCRBY', h.budgets.key, budget.field, budget.need) end
  end
end
local fields = {'seen_ms', math.floor(now * 1000), 'second', second, 'reserved', need, 'cost', cost, 'day', day, 'month', month}
for i = 11 + 7 * count, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('EXPIRE', KEYS[1], 86400)
redis.call('SADD', KEYS[2], request)
return report(1, 0, '', 0, '0')
