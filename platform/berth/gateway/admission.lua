-- Admits one request under all limits of its contract, or under none of them.
-- KEYS: open request (hash), open requests (set), requests per second (hash), tokens per second (hash), leases (zset)
-- ARGV: request id, tokens to reserve, requests/min or -1, tokens/min or -1, concurrency or -1, lease seconds,
--       then fields and values of the open request
-- Returns {admitted, what was over, wait ms, requests left, reset ms, tokens left, reset ms, second of the reservation}
-- A window is the last 60 whole seconds, one counter a second: exact to a second, and a settled request corrects its own.
redis.replicate_commands()
local clock = redis.call('TIME')
local second = tonumber(clock[1])
local now = second + tonumber(clock[2]) / 1e6
local request, need = ARGV[1], tonumber(ARGV[2])
local max_requests, max_tokens, max_leases = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function window(key, limit)
  local used, spans = 0, {}
  if limit < 0 then return used, spans end
  local pairs_ = redis.call('HGETALL', key)
  for i = 1, #pairs_, 2 do
    local at, n = tonumber(pairs_[i]), tonumber(pairs_[i + 1])
    if at <= second - 60 then
      redis.call('HDEL', key, pairs_[i])
    else
      used = used + n
      spans[#spans + 1] = {at, n}
    end
  end
  table.sort(spans, function(a, b) return a[1] < b[1] end)
  return used, spans
end

local function wait_ms(spans, excess) -- until so much of the window has passed
  for _, span in ipairs(spans) do
    excess = excess - span[2]
    if excess <= 0 then return math.max(1, math.ceil((span[1] + 60 - now) * 1000)) end
  end
  return 60000
end

local function reset_ms(spans)
  if #spans == 0 then return 0 end
  return math.ceil((spans[#spans][1] + 60 - now) * 1000)
end

local requests, request_spans = window(KEYS[3], max_requests)
local tokens, token_spans = window(KEYS[4], max_tokens)
local over, wait = '', 0
if max_requests >= 0 and requests + 1 > max_requests then
  over, wait = 'requests', wait_ms(request_spans, requests + 1 - max_requests)
end
if max_tokens >= 0 and tokens + need > max_tokens then
  local longer = wait_ms(token_spans, tokens + need - max_tokens)
  if over == '' or longer > wait then over, wait = 'tokens', longer end
end
if max_leases >= 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', now)
  if over == '' and redis.call('ZCARD', KEYS[5]) >= max_leases then over, wait = 'concurrency', 1000 end
end
if over ~= '' then
  return {0, over, wait, math.max(0, max_requests - requests), reset_ms(request_spans),
          math.max(0, max_tokens - tokens), reset_ms(token_spans), second}
end

if max_requests >= 0 then
  redis.call('HINCRBY', KEYS[3], second, 1)
  redis.call('EXPIRE', KEYS[3], 61)
end
if max_tokens >= 0 then
  redis.call('HINCRBY', KEYS[4], second, need)
  redis.call('EXPIRE', KEYS[4], 61)
end
if max_leases >= 0 then
  redis.call('ZADD', KEYS[5], now + tonumber(ARGV[6]), request)
  redis.call('EXPIRE', KEYS[5], 86400)
end
local fields = {'seen_ms', math.floor(now * 1000)}
for i = 7, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('EXPIRE', KEYS[1], 86400)
redis.call('SADD', KEYS[2], request)
return {1, '', 0, math.max(0, max_requests - requests - 1), 60000, math.max(0, max_tokens - tokens - need), 60000, second}
