-- The requests of wrk to the orders service: nine reads and one write in turn. Prints the number of
-- responses of each kind.
local counts = { good = 0, busy = 0, busy_without_hint = 0, other = 0 }
local threads = {}
local turn = 0
local order = '{"customer":"wrk","lines":[{"item":"tea","quantity":2,"cents":350}]}'
local requests = {}

function setup(thread) table.insert(threads, thread) end

function init()
  for id = 1, 9 do requests[id] = wrk.format("GET", "/orders/" .. id) end
  requests[10] = wrk.format("POST", "/orders", { ["Content-Type"] = "application/json" }, order)
end

function request()
  turn = turn % 10 + 1
  return requests[turn]
end

function response(status, headers)
  if status < 300 then counts.good = counts.good + 1
  elseif status ~= 503 then counts.other = counts.other + 1
  elseif headers["Retry-After"] then counts.busy = counts.busy + 1
  else counts.busy_without_hint = counts.busy_without_hint + 1 end
  good, busy = counts.good, counts.busy
  busy_without_hint, other = counts.busy_without_hint, counts.other
end

function done(summary, latency)
  local function sum(name)
    local all = 0
    for _, thread in ipairs(threads) do all = all + (thread:get(name) or 0) end
    return all
  end
  local e = summary.errors
  io.write(string.format(
    'RESULT {"good": %d, "busy": %d, "busy_without_hint": %d, "other": %d, "seconds": %f, ' ..
    '"socket_errors": %d, "p99_ms": %f, "max_ms": %f}\n',
    sum("good"), sum("busy"), sum("busy_without_hint"), sum("other"), summary.duration / 1e6,
    e.connect + e.read + e.write + e.timeout, latency:percentile(99) / 1e3, latency.max / 1e3))
end
