-- Charges what a node has let pass to keys that nodes share, and says how far each is ahead now, in microseconds.
-- KEYS: what this node has said last, then the keys. ARGV: the number of this message, the time it covers, how far a key may be ahead;
-- then for each key the cost of what passed, and how far it is ahead on this node.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local covered, most = tonumber(ARGV[2]), tonumber(ARGV[3])
-- A message that came before, and whose reply was lost, is not charged twice.
local is_new = (tonumber(redis.call('GET', KEYS[1]) or '0') or 0) < tonumber(ARGV[1])
local used = {}
for i = 2, #KEYS do
  local ahead = tonumber(redis.call('GET', KEYS[i]) or '0') or 0
  if is_new then
    ahead = math.max(ahead, now - covered) + tonumber(ARGV[2 * i])
    ahead = math.min(math.max(ahead, now + tonumber(ARGV[2 * i + 1])), now + most)
    local left = math.ceil(math.max(ahead - now, 0) / 1000) + 30000
    redis.call('SET', KEYS[i], string.format('%.0f', ahead), 'PX', string.format('%.0f', left))
  end
  used[i - 1] = math.max(0, math.floor(ahead - now))
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', '120000')
return used
