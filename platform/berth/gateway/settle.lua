-- Closes one request: corrects its reservations, gives its places back, posts its record, forgets that it was open.
-- KEYS: open request, open requests, usage stream, mark of the settled request,
--       then of each holder: tokens per second, leases, budgets
-- ARGV: request id, tokens it used, what it cost, start of its day and of its month, record or ''
-- May run twice: only the run that finds the request open corrects what was reserved, and the ledger drops a second
-- record. Budgets also take what was never open here, let in while Redis was away: once, by the mark.
local held = redis.call('HMGET', KEYS[1], 'second', 'reserved', 'cost', 'day', 'month')
local second, reserved, cost = held[1], tonumber(held[2] or 0), held[3] or '0'
local day, month = held[4] or ARGV[4], held[5] or ARGV[5] -- a reservation is corrected where it was made
local open = redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])

local function correct(budget)
  for _, period in ipairs({':day:' .. day, ':month:' .. month}) do
    redis.call('HINCRBY', budget, 'tokens' .. period, tonumber(ARGV[2]) - reserved)
    redis.call('HINCRBY', budget, 'cost' .. period, ARGV[3])
    if cost ~= '0' then redis.call('HINCRBY', budget, 'cost' .. period, '-' .. cost) end
  end
end

local first = nil
for i = 5, #KEYS, 3 do
  if second and redis.call('HEXISTS', KEYS[i], second) == 1 then
    redis.call('HINCRBY', KEYS[i], second, tonumber(ARGV[2]) - reserved)
  end
  redis.call('ZREM', KEYS[i + 1], ARGV[1])
  if redis.call('EXISTS', KEYS[i + 2]) == 1 then
    if first == nil then
      local marked = redis.call('SET', KEYS[4], 1, 'NX', 'EX', 3600)
      first = open == 1 or marked ~= false
    end
    if first then correct(KEYS[i + 2]) end
  end
end
if ARGV[6] ~= '' then
  redis.call('XADD', KEYS[3], '*', 'record', ARGV[6])
end
return open
