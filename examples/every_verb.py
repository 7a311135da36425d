"""Every verb of the Python API on a small network, each with the result of the verb before it."""

from pathlib import Path

import onchip as oc

net = oc.load_network("lenet5", bits=8)
chip = oc.load_accelerator("simba").resized(global_buffer="32KiB")
print(oc.info(net))

plan = oc.plan(net, oc.Memory("sram", "40KiB"), minimize="traffic", time_limit=10)
print(plan)
print(plan.status, plan.objective, plan.lower_bound, plan.gap, plan.space, plan.seconds, plan.peak_bytes)
plan.save("plan.json")
plan.report("plan.html")
oc.check(plan).raise_if_illegal()
oc.run(plan, seed=1).raise_if_wrong()
print(oc.time(plan, target=chip).latency_cycles, oc.audit(plan, time_limit=5).rulings)
print(oc.explain(plan).summary())
print(oc.export(plan, "plan.csv", to="csv"))
oc.report(plan, "timed.html", target=chip)
again = oc.load("plan.json", net)
print(oc.diff(plan, again).is_equal, oc.capacity(net, options=oc.CapacityOptions(order=oc.Order.GIVEN)).steps)

layer = oc.conv(k=8, c=8, p=8, q=8, r=3, s=3, pad=1)
best = oc.map_layer(layer, chip, minimize="edp", options=oc.MapOptions(method="loma"))
print(best, best.loop_nest, oc.check(best).is_legal)
print(oc.map_layer(oc.gemm(8, 8, 8), chip, options=oc.MapOptions(method="loma")).utilisation)
layers = oc.map_network(net, chip, options=oc.MapOptions(method="loma"), time_limit=2)
print(layers.energy_pj, list(layers.layers), oc.check(layers).is_legal)

groups = oc.fuse(net, chip, options=oc.FusionOptions(groups="layers"), time_limit=2)
print(groups, oc.check(groups).is_legal)
sched = oc.schedule(net, chip, minimize="energy", options=oc.ScheduleOptions(groups="layers"), time_limit=1)
print(sched.energy_pj, sched.latency_cycles, sched.lower_bound, sched.space)
print(oc.check(sched), oc.run(sched), oc.time(sched), oc.explain(sched), oc.export(sched, "trace.json", to="trace"))
front = oc.pareto(net, chip, minimize=["energy", "latency"], points=2, time_limit=2)
print(front, [point.latency_cycles for point in front.points])

buffers = {"a": oc.Buffer(0, 2, 4), "b": oc.Buffer(1, 3, 5), "c": oc.Buffer(2, 4, 4)}
print(oc.pack(buffers).offsets, oc.pack(buffers, capacity=8, options=oc.PackOptions(overflow=True)).outside_bytes)
rows = oc.sweep([net], sram=["40KiB", "48KiB"], store="sizes.db")
oc.report("sizes.db", "sizes.html")
print([row.answer.objective_value for row in rows], sorted(path.name for path in Path().glob("*.html")))
