-- Adds what a holder had used before seed.lua began; from now on its budgets are counted.
-- KEYS: budgets (hash); ARGV: who asked, then fields and amounts
-- Returns 0 where another has begun since.
if redis.call('HGET', KEYS[1], 'seeding') ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HDEL', KEYS[1], 'seeding', 'since')
return 1
