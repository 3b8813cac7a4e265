package pathrules

// parseClass reads the [...] that begins at p[i], and returns where it ends. False: it does not end, or
// names a class that there is not.
func parseClass(p string, i int) (s set, end int, ok bool) {
	at := func(i int) byte {
		if i < len(p) {
			return p[i]
		}
		return 0 // no rule holds one
	}
	i++
	negated := at(i) == '!' || at(i) == '^'
	if negated {
		i++
	}
	var last byte // that a range can begin with
	for first := true; first || at(i) != ']'; first = false {
		c := at(i)
		switch {
		case c == 0:
			return s, i, false
		case c == '\\':
			if i++; at(i) == 0 {
				return s, i, false
			}
			last = at(i)
			s.add(last)
		case c == '-' && last != 0 && at(i+1) != 0 && at(i+1) != ']':
			i++
			if at(i) == '\\' {
				i++
			}
			if at(i) == 0 {
				return s, i, false
			}
			s.addRange(last, at(i))
			last = 0
		case c == '[' && at(i+1) == ':':
			name, next, closed := className(p, i)
			if !closed {
				return s, i, false
			}
			if next == i { // no class after all
				s.add(c)
				last = c
				break
			}
			if !s.addClass(name) {
				return s, i, false
			}
			i, last = next, 0
		default:
			s.add(c)
			last = c
		}
		i++
	}
	if negated {
		s.invert()
	}
	s.remove('/')
	return s, i, true
}

// className reads [:name:] at p[i] and returns where its last byte is; i: it is none. Not closed: there
// is no ] any more.
func className(p string, i int) (name string, next int, closed bool) {
	for j := i + 2; j < len(p); j++ {
		if p[j] != ']' {
			continue
		}
		if j == i+2 || p[j-1] != ':' {
			return "", i, true
		}
		return p[i+2 : j-1], j, true
	}
	return "", i, false
}

// addClass adds the bytes of a class, ASCII only.
func (s *set) addClass(name string) bool {
	switch name {
	case "alnum":
		return s.addClass("alpha") && s.addClass("digit")
	case "alpha":
		return s.addClass("lower") && s.addClass("upper")
	case "blank":
		s.add(' ')
		s.add('\t')
	case "cntrl":
		s.addRange(0, 0x1f)
		s.add(0x7f)
	case "digit":
		s.addRange('0', '9')
	case "graph":
		s.addRange(0x21, 0x7e)
	case "lower":
		s.addRange('a', 'z')
	case "print":
		s.addRange(0x20, 0x7e)
	case "punct":
		s.addRange(0x21, 0x2f)
		s.addRange(0x3a, 0x40)
		s.addRange(0x5b, 0x60)
		s.addRange(0x7b, 0x7e)
	case "space":
		s.add(' ')
		s.addRange('\t', '\r')
	case "upper":
		s.addRange('A', 'Z')
	case "xdigit":
		s.addRange('0', '9')
		s.addRange('a', 'f')
		s.addRange('A', 'F')
	default:
		return false
	}
	return true
}
