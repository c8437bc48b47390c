-- Closes one request: corrects its reservations, gives its places back, posts its record, forgets that it was open.
-- KEYS: open request, open requests, usage stream, then of each holder: tokens per second, leases
-- ARGV: request id, tokens it used, record or ''
-- May run twice: only the run that finds the request open corrects anything, and the ledger drops a second record.
local reservation = redis.call('HMGET', KEYS[1], 'second', 'reserved')
local second, reserved = reservation[1], tonumber(reservation[2] or 0)
local open = redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
for i = 4, #KEYS, 2 do
  if second and redis.call('HEXISTS', KEYS[i], second) == 1 then
    redis.call('HINCRBY', KEYS[i], second, tonumber(ARGV[2]) - reserved)
  end
  redis.call('ZREM', KEYS[i + 1], ARGV[1])
end
if ARGV[3] ~= '' then
  redis.call('XADD', KEYS[3], '*', 'record', ARGV[3])
end
return open
