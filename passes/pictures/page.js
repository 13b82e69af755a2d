/*
 * What the pointer shows, the keyboard shows too.  Each picture is one stop of
 * Tab; in it arrow keys go from item to item, and in a track of the timeline
 * from action to action.  Without this script the pictures and their tables
 * are the same, but nothing zooms.
 */
(function () {
"use strict";
var errors = 0;
window.addEventListener("error", function () { errors++; });

function all(root, what) {
	return Array.prototype.slice.call(root.querySelectorAll(what));
}
function say(el, text) {
	el.closest("figure").querySelector("output").textContent = text;
}
function titleOf(el) {
	var t = el.querySelector("title");
	return t ? t.textContent : "";
}
function number(v) {
	return String(Number(v.toPrecision(5)));
}

/* ---- tracks: actions as START,LABEL,NUMBERS; with START in millionths ---- */

function readTrack(el) {
	var svg = el.ownerSVGElement, d = svg.dataset, labels, lo, span;
	if (el.actions) {
		return el.actions;
	}
	labels = d.labels.split(";").map(function (s) { return s.split("|"); });
	lo = Number(d.lo);
	span = Number(d.hi) - lo;
	el.actions = el.dataset.d.split(";").map(function (s) {
		var f = s.split(","), label = labels[f[1]];
		return { lo: lo + f[0] * span / 1e6, us: Number(label[1]),
			label: label[0], f: f };
	});
	el.at = -1;
	return el.actions;
}
function showAction(el, i) {
	var a = readTrack(el)[i], svg = el.ownerSVGElement, d = svg.dataset;
	var lo = Number(d.lo), span = Number(d.hi) - lo;
	var hit = el.querySelector(".hit"), gap, c = svg.querySelector(".cursor");
	if (!c) {
		c = document.createElementNS(svg.namespaceURI, "rect");
		c.setAttribute("class", "cursor");
		svg.appendChild(c);
	}
	gap = a.lo - (i ? el.actions[i - 1].lo + el.actions[i - 1].us : lo);
	el.at = i;
	c.setAttribute("x", (a.lo - lo) / span * 1000);
	c.setAttribute("width", Math.max(a.us / span * 1000, 0.2));
	c.setAttribute("y", hit.getAttribute("y"));
	c.setAttribute("height", hit.getAttribute("height"));
	say(el, el.dataset.name + ": " +
		d.text.replace(/\$(\w)/g, function (m, k) {
			return k === "l" ? a.label : k === "a" ? number(a.lo) :
				k === "b" ? number(a.lo + a.us) :
				k === "t" ? number(a.us) :
				k === "m" ? (a.f[2] ? ", microbatch " + a.f[2] :
					"") : a.f[k];
		}) + (gap > span / 1e4 ? "; before it the place waits " +
			number(gap) + " ms" : ""));
	return c;
}
/* The action at v; where the place waits, the one that it waits for. */
function actionAt(el, v) {
	var list = readTrack(el), lo = 0, hi = list.length, mid;
	while (hi - lo > 1) {
		mid = (lo + hi) >> 1;
		if (list[mid].lo <= v) { lo = mid; } else { hi = mid; }
	}
	return v > list[lo].lo + list[lo].us && lo + 1 < list.length ?
		lo + 1 : lo;
}
function keepInView(c) {
	var pan = c.closest(".pan"), b = c.getBoundingClientRect();
	var p = pan.getBoundingClientRect();
	if (b.left < p.left || b.right > p.right) {
		pan.scrollLeft += (b.left + b.right - p.left - p.right) / 2;
	}
}
function underPointer(el, event) {
	var box = el.ownerSVGElement.getBoundingClientRect();
	var d = el.ownerSVGElement.dataset, lo = Number(d.lo);
	var part = (event.clientX - box.left) / box.width;
	showAction(el, actionAt(el, lo + part * (Number(d.hi) - lo)));
}

/* ---- items: one stop of Tab for all of a picture ---- */

function stepInTrack(el, key) {
	var n = readTrack(el).length;
	var to = key === "ArrowLeft" ? el.at - 1 : key === "ArrowRight" ?
		el.at + 1 : key === "Home" ? 0 : n - 1;
	keepInView(showAction(el, Math.min(Math.max(to, 0), n - 1)));
}
function press(items, i, event) {
	var key = event.key, track = items[i].classList.contains("track");
	var across = key === "ArrowLeft" || key === "ArrowRight" ||
		key === "Home" || key === "End", to;
	if (track && across) {
		stepInTrack(items[i], key);
	} else if (across || key === "ArrowUp" || key === "ArrowDown") {
		to = key === "Home" ? 0 : key === "End" ? items.length - 1 :
			key === "ArrowLeft" || key === "ArrowUp" ? i - 1 : i + 1;
		items[Math.min(Math.max(to, 0), items.length - 1)].focus();
	} else {
		return;
	}
	event.preventDefault();
}
function addItems(items) {
	items.forEach(function (el, i) {
		var track = el.classList.contains("track");
		el.setAttribute("tabindex", i ? "-1" : "0");
		el.setAttribute("role", "img");
		el.setAttribute("aria-label", titleOf(el));
		el.addEventListener("focus", function () {
			items.forEach(function (x) {
				x.setAttribute("tabindex", x === el ? "0" : "-1");
			});
			say(el, titleOf(el));
		});
		el.addEventListener("keydown", function (e) {
			press(items, i, e);
		});
		el.addEventListener(track ? "pointermove" : "pointerenter",
			function (e) {
				if (track) { underPointer(el, e); } else {
					say(el, titleOf(el));
				}
			});
	});
}

/* ---- zoom ---- */

function niceStep(span, n) {
	var raw = span / n, p = Math.pow(10, Math.floor(Math.log10(raw)));
	var f = raw / p;
	return p * (f < 1.5 ? 1 : f < 3.5 ? 2 : f < 7.5 ? 5 : 10);
}
function drawTicks(plot, zoom) {
	var d = plot.querySelector("svg").dataset, xs = plot.querySelector(".xs");
	var lo = Number(d.lo), hi = Number(d.hi), v, s, span;
	var most = Math.max(plot.querySelector(".pan").clientWidth / 90, 2);
	var step = niceStep(hi - lo, Math.min(most, 9) * zoom);
	xs.textContent = "";
	for (v = Math.ceil(lo / step) * step; v <= hi; v += step) {
		span = (v - lo) / (hi - lo);
		s = document.createElement("span");
		s.textContent = number(v);
		s.style.left = 100 * span + "%";
		xs.appendChild(s);
	}
	thinTicks(xs);
}
/* Ticks at the ends stay inside; those that would overlap are hidden. */
function thinTicks(xs) {
	var box = xs.getBoundingClientRect(), end = box.left - 9;
	all(xs, "span").forEach(function (s) {
		var b, half, at = parseFloat(s.style.left) / 100 * box.width;
		s.className = "";
		half = s.getBoundingClientRect().width / 2;
		s.className = at < half ? "a" :
			at > box.width - half ? "z" : "";
		b = s.getBoundingClientRect();
		s.style.visibility = b.left < end + 8 ? "hidden" : "";
		end = b.left < end + 8 ? end : b.right;
	});
}
function addZoom(plot) {
	var pan = plot.querySelector(".pan"), wide = plot.querySelector(".wide");
	var tools = document.createElement("div"), zoom = 1;
	function to(z) {
		var mid = (pan.scrollLeft + pan.clientWidth / 2) / pan.scrollWidth;
		zoom = Math.min(Math.max(z, 1), 512);
		wide.style.width = 100 * zoom + "%";
		drawTicks(plot, zoom);
		pan.scrollLeft = mid * pan.scrollWidth - pan.clientWidth / 2;
	}
	function button(text, how) {
		var b = document.createElement("button");
		b.type = "button";
		b.textContent = text;
		b.addEventListener("click", function () { to(how()); });
		tools.appendChild(b);
	}
	button("zoom in", function () { return zoom * 2; });
	button("zoom out", function () { return zoom / 2; });
	button("all of it", function () { return 1; });
	window.addEventListener("resize", function () { to(zoom); });
	to(1);
	tools.className = "tools";
	plot.parentNode.insertBefore(tools, plot);
	plot.addEventListener("keydown", function (e) {
		if (e.key === "+" || e.key === "=") { to(zoom * 2); }
		if (e.key === "-") { to(zoom / 2); }
		if (e.key === "0") { to(1); }
	});
	plot.addEventListener("wheel", function (e) {
		if (e.ctrlKey) {
			e.preventDefault();
			to(e.deltaY < 0 ? zoom * 1.5 : zoom / 1.5);
		}
	}, { passive: false });
}

/* ---- all of it ---- */

all(document, "figure").forEach(function (f) { addItems(all(f, ".i")); });
all(document, ".plot.zooms").forEach(addZoom);
all(document, ".plot:not(.zooms) .xs").forEach(function (xs) {
	thinTicks(xs);
	window.addEventListener("resize", function () { thinTicks(xs); });
});
window.addEventListener("beforeprint", function () {
	all(document, "details").forEach(function (d) { d.open = true; });
});

/*
 * With #check at the end of its address the page tests itself, and writes the
 * result where a browser without a window prints it.
 */
function check() {
	var faults = [], root = document.documentElement, n = 0;
	all(document, "figure").forEach(function (f) {
		var items = all(f, ".i");
		items.forEach(function (el) {
			n++;
			el.focus();
			/* a window in the background is not told */
			el.dispatchEvent(new FocusEvent("focus"));
			if (document.activeElement !== el || !titleOf(el)) {
				faults.push("no focus in " + f.id);
			}
			if (el.classList.contains("track")) {
				stepInTrack(el, "ArrowRight");
				stepInTrack(el, "End");
			}
			if (!f.querySelector("output").textContent) {
				faults.push("nothing said in " + f.id);
			}
		});
	});
	all(document, ".plot.zooms").forEach(function (p) {
		p.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
		p.dispatchEvent(new KeyboardEvent("keydown", { key: "0" }));
	});
	if (root.scrollWidth > root.clientWidth) {
		faults.push("wider than the window");
	}
	if (errors) {
		faults.push(errors + " errors");
	}
	root.dataset.check = (faults.length ? "bad: " + faults[0] : "ok") +
		", " + n + " items";
}
if (location.hash === "#check") {
	check();
}
})();
