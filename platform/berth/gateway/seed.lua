-- Begins to count a holder's budgets anew: from here on its hash takes whatever is reserved and settled, and seeded.lua
-- adds what was before. What was before lies in the open requests, which are read here, in the records that no ledger
-- has booked, up to the last one named here, and in the database.
-- KEYS: budgets (hash), open requests (set), usage stream
-- ARGV: id of this Redis server, who asks, seconds one may take for it, prefix of an open request's key
-- Returns {0} where they are counted or another is at it; else {1, second, id of the stream's last entry or '',
--          {record, tokens reserved, cost reserved, start of day, of month} of each open request}
redis.replicate_commands()
local second = tonumber(redis.call('TIME')[1])
local state = redis.call('HMGET', KEYS[1], 'server', 'seeding', 'since')
if state[1] == ARGV[1] and (not state[2] or second - tonumber(state[3]) < tonumber(ARGV[3])) then return {0} end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'server', ARGV[1], 'seeding', ARGV[2], 'since', second)
redis.call('EXPIRE', KEYS[1], 40 * 86400)
local open = {}
for _, request in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  local held = redis.call('HMGET', ARGV[4] .. request, 'record', 'reserved', 'cost', 'day', 'month')
  if held[1] then open[#open + 1] = {held[1], held[2] or '0', held[3] or '0', held[4] or '', held[5] or ''} end
end
local last = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)
return {1, second, last[1] and last[1][1] or '', open}
