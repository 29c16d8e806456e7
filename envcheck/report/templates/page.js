"use strict";
(function () {
  var root = document.documentElement;
  var all = function (what) { return Array.prototype.slice.call(document.querySelectorAll(what)); };
  all("[data-script]").forEach(function (one) { one.hidden = false; });

  function stored(value) {
    try {
      if (value === undefined) return localStorage.getItem("envcheck-theme");
      localStorage.setItem("envcheck-theme", value);
    } catch (refused) { /* a page from a file, or a browser that keeps nothing */ }
    return null;
  }
  function dark() {
    var said = root.getAttribute("data-theme");
    return said ? said === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }
  var theme = document.getElementById("theme");
  function show() { theme.setAttribute("aria-pressed", String(dark())); }
  var before = stored();
  if (before === "dark" || before === "light") root.setAttribute("data-theme", before);
  show();
  theme.addEventListener("click", function () {
    var next = dark() ? "light" : "dark";
    root.setAttribute("data-theme", next);
    stored(next);
    show();
  });

  var folds = document.getElementById("folds");
  function every(open) {
    all("details").forEach(function (one) { one.open = open; });
    folds.textContent = folds.getAttribute(open ? "data-close" : "data-open");
    folds.setAttribute("aria-expanded", String(open));
  }
  folds.addEventListener("click", function () { every(folds.getAttribute("aria-expanded") !== "true"); });

  var shut = [];
  window.addEventListener("beforeprint", function () {
    shut = all("details:not([open])");
    shut.forEach(function (one) { one.open = true; });
  });
  window.addEventListener("afterprint", function () { shut.forEach(function (one) { one.open = false; }); });

  function copied(button) {
    button.textContent = button.getAttribute("data-done");
    setTimeout(function () { button.textContent = button.getAttribute("data-copy"); }, 1500);
  }
  function select(code) {
    var range = document.createRange();
    range.selectNodeContents(code);
    var selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }
  all("button[data-copy]").forEach(function (button) {
    button.addEventListener("click", function () {
      var code = button.previousElementSibling;
      var done = function () { copied(button); };
      if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, function () { if (select(code)) done(); });
      else if (select(code)) done();
    });
  });
})();
