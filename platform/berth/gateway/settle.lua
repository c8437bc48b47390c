-- Closes one request: corrects its reservation, gives its place back, posts its record, forgets that it was open.
-- KEYS: open request, open requests, tokens per second, leases, usage stream
-- ARGV: request id, second of the reservation, tokens to add (negative: give back), record or ''
-- May run twice: only the run that finds the request open corrects anything, and the ledger drops a second record.
local open = redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
if open == 1 and redis.call('HEXISTS', KEYS[3], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[3], ARGV[2], ARGV[3])
end
if ARGV[4] ~= '' then
  redis.call('XADD', KEYS[5], '*', 'record', ARGV[4])
end
return open
